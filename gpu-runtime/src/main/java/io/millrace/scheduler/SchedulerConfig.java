package io.millrace.scheduler;

/**
 * The limits of a step.
 *
 * @param maxNumSeqs most sequences that hold blocks at once
 * @param maxNumBatchedTokens the token budget of a step
 * @param loadingLast whether prompts whose prefix is being loaded are computed after all others
 */
public record SchedulerConfig(int maxNumSeqs, int maxNumBatchedTokens, boolean loadingLast) {
    public SchedulerConfig(int maxNumSeqs, int maxNumBatchedTokens) {
        this(maxNumSeqs, maxNumBatchedTokens, true);
    }

    public SchedulerConfig {
        if (maxNumSeqs < 1 || maxNumBatchedTokens < 1) {
            throw new IllegalArgumentException("max_num_seqs = " + maxNumSeqs + ", max_num_batched_tokens = "
                    + maxNumBatchedTokens + ": both must be at least 1");
        }
    }
}
