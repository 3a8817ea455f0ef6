package io.millrace.scheduler;

/**
 * The limits of a step.
 *
 * @param maxNumSeqs most sequences that hold blocks at once
 * @param maxNumBatchedTokens the token budget of a step
 */
public record SchedulerConfig(int maxNumSeqs, int maxNumBatchedTokens) {
    public SchedulerConfig {
        if (maxNumSeqs < 1 || maxNumBatchedTokens < 1) {
            throw new IllegalArgumentException("max_num_seqs = " + maxNumSeqs + ", max_num_batched_tokens = "
                    + maxNumBatchedTokens + ": both must be at least 1");
        }
    }
}
