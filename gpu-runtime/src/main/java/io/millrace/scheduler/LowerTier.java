package io.millrace.scheduler;

import io.millrace.sequence.Sequence;

/**
 * What a tier below the block pool tells the scheduler and hears from it. Engine thread only; called while a step is planned.
 */
public interface LowerTier {
    /** No tier: nothing waits, nothing is kept. */
    LowerTier NONE = new LowerTier() {
        @Override
        public boolean mayAdmit(Sequence sequence) {
            return true;
        }

        @Override
        public int endPosition(Sequence sequence, int maxEndPosition, ScheduledBatch batch) {
            return maxEndPosition;
        }

        @Override
        public boolean isLoading() {
            return false;
        }

        @Override
        public PromptLimits promptLimits(int budget, int numOtherTokens, ScheduledBatch batch) {
            return new PromptLimits(budget, budget);
        }

        @Override
        public void admitted(Sequence sequence) {}

        @Override
        public void preempting(Sequence sequence) {}
    };

    /** Whether anything is being loaded, or was until this step. */
    boolean isLoading();

    /**
     * How much of prompts the step is to compute, so that it ends when a load has brought what is missing, or soon if one just
     * has; asked only while {@link #isLoading}.
     *
     * @param budget tokens left of the step's budget
     * @param numOtherTokens tokens of other prompts that wait to be computed, as far as they fit into the budget
     * @param batch what the step computes already
     */
    PromptLimits promptLimits(int budget, int numOtherTokens, ScheduledBatch batch);

    /** Whether a waiting sequence of a group whose prefix is being loaded is to be given blocks now. */
    boolean mayAdmit(Sequence sequence);

    /**
     * Where this step's computing of a sequence has to end.
     *
     * @param maxEndPosition what budget and tokens allow
     * @param batch what the step computes already
     * @return at most maxEndPosition; the position that it has if it is to wait
     */
    int endPosition(Sequence sequence, int maxEndPosition, ScheduledBatch batch);

    /** A sequence was given the blocks of all its tokens; it may be moved on ({@link Scheduler#skipTo}) at once. */
    void admitted(Sequence sequence);

    /** A sequence is about to lose its blocks; what they hold can still be read. */
    void preempting(Sequence sequence);
}
