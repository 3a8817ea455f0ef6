package io.millrace.bench.scenario;

/**
 * Tokens per second of a served file of requests, over the time in which every slot is taken: from when a first slot's worth
 * of requests has ended until no more than that is left. Fed with counts as they are seen. One thread.
 */
final class SteadyWindow {
    private final long firstCompleted;
    private final long lastCompleted;
    private long startNanos = -1;
    private long endNanos = -1;
    private long startTokens;
    private long endTokens;

    SteadyWindow(int numRequests, int numSlots) {
        if (numRequests <= 2 * numSlots) {
            throw new IllegalArgumentException(numRequests + " requests leave no steady window for " + numSlots
                    + " slots; take more than twice as many");
        }
        firstCompleted = numSlots;
        lastCompleted = numRequests - numSlots;
    }

    /** Notes what had been completed and generated at a time. */
    void observe(long nanos, long numCompleted, long numGeneratedTokens) {
        if (numCompleted < firstCompleted || numCompleted > lastCompleted) {
            return;
        }
        if (startNanos < 0) {
            startNanos = nanos;
            startTokens = numGeneratedTokens;
        }
        if (numGeneratedTokens > endTokens) { // the first sight of a count is when it was true
            endNanos = nanos;
            endTokens = numGeneratedTokens;
        }
    }

    /** NaN where the window was too short to see two counts. */
    double tokensPerSecond() {
        return endNanos > startNanos ? (endTokens - startTokens) * 1e9 / (endNanos - startNanos) : Double.NaN;
    }

    double seconds() {
        return Math.max(0, endNanos - startNanos) / 1e9;
    }
}
