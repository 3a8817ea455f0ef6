/**
 * KV blocks as plain ints: which are free, which a sequence gets as neighbours, who holds them, which of them hold the KV of a
 * known prefix, and when one must be copied before it is written. It must not know what a block is in memory, who schedules, or
 * what runs on which device.
 */
package io.millrace.kvcache;
