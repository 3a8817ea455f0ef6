/**
 * The operator that keeps an engine turning inside a Flink task. The task thread owns the ledger of requests in flight and
 * all state; the engine thread only publishes what its steps drew. Owns checkpoints and restores of in-flight requests, the
 * counts of the whole job, and the guard that keeps a poisonous request from restarting the job for ever. Must not know
 * Kafka, formats, block tables or devices.
 */
package io.millrace.operators.inference;
