/**
 * The engine's half of a prefix-KV tier below the block pool: chunk chains, what is stored, the order of computing and loading
 * and the cost model behind it. Groups whose prefix is on its way are scheduled last
 * ({@link io.millrace.sequence.SequenceGroup#isLoadingPrefix()}), so that loads soak up idle time. It must not know RocksDB or Flink.
 */
package io.millrace.prefix;
