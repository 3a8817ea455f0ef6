/**
 * Requests as the scheduler sees them: a group of sequences that share a prompt, their tokens, how far their KV is computed
 * and whether they run. It must not know how blocks are found or freed, and nothing of devices.
 */
package io.millrace.sequence;
