/**
 * The Flink half of Millrace between source and sink: {@code prepare} tokenises and validates, {@code routing} chooses the
 * key, {@code inference} runs the engine under a ledger. Owns the order of these stages, their uids and the rule that every
 * record is counted in one place. Must not know Kafka, files or formats, nor anything of the engine but its public API.
 */
package io.millrace.operators;
