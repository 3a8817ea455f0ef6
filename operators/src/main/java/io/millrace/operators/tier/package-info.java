/**
 * Stores of prefix KV for the engine's tier: one in Flink's keyed state, which survives failures and rescales with its key
 * groups, and one in a database of the process's own on the local disk, which is cold after a failure. Owns what is kept and
 * what is evicted. Must not know what a chunk's bytes mean beyond their checksum, nor requests, nor when a load pays.
 */
package io.millrace.operators.tier;
