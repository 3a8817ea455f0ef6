package io.millrace.prefix;

/**
 * What steps take, from those that were run: so much a token, and so much more for every position before it, since attention
 * makes late tokens dearer. The dearth of late tokens is a property of model and device and is learnt slowly; how fast the
 * device is just now is taken from the last few steps. Pure arithmetic; engine thread only.
 */
final class ComputeRate {
    private static final int MIN_PROMPT_TOKENS = 16; // fewer, and a step's fixed cost hides the tokens'
    private static final double KEPT_OF_SHAPE = 0.97;
    private static final double KEPT_OF_SPEED = 0.5;
    private static final double LITTLE_SPREAD = 128; // positions that differ by less say little about a slope

    // Decayed sums over steps of x = mean position and y = nanoseconds a token.
    private double weight;
    private double sumX;
    private double sumY;
    private double sumXx;
    private double sumXy;
    // Decayed sums over the last few steps.
    private double recentTokens;
    private double recentPositions;
    private double recentNanos;
    private double dearth; // of a position, in tokens

    /** Starts without knowledge. */
    ComputeRate() {}

    /** Whether a step was ever seen. */
    boolean isKnown() {
        return recentTokens > 0;
    }

    /**
     * Notes a step.
     *
     * @param numTokens all that it computed
     * @param sumPositions over these tokens
     * @param numPromptTokens of these, of prompts or recomputation
     */
    void observe(int numTokens, double sumPositions, int numPromptTokens, long nanos) {
        if (numPromptTokens < MIN_PROMPT_TOKENS || nanos <= 0) {
            return;
        }
        double x = sumPositions / numTokens;
        double y = (double) nanos / numTokens;
        weight = weight * KEPT_OF_SHAPE + 1;
        sumX = sumX * KEPT_OF_SHAPE + x;
        sumY = sumY * KEPT_OF_SHAPE + y;
        sumXx = sumXx * KEPT_OF_SHAPE + x * x;
        sumXy = sumXy * KEPT_OF_SHAPE + x * y;
        recentTokens = recentTokens * KEPT_OF_SPEED + numTokens;
        recentPositions = recentPositions * KEPT_OF_SPEED + sumPositions;
        recentNanos = recentNanos * KEPT_OF_SPEED + nanos;
        learnShape();
    }

    private void learnShape() {
        double meanX = sumX / weight;
        double meanY = sumY / weight;
        double spread = sumXx / weight - meanX * meanX;
        double slope = (sumXy / weight - meanX * meanY) / (spread + LITTLE_SPREAD * LITTLE_SPREAD);
        double base = meanY - slope * meanX;
        // Neither a token nor a position is ever free; a base below a tenth of the mean is an artefact of changing
        // speed.
        dearth = Math.max(0, slope) / Math.max(base, meanY / 10);
    }

    /** A step of so many tokens at such positions; 0 while unknown. */
    double nanos(double numTokens, double sumPositions) {
        return isKnown()
                ? recentNanos * (numTokens + dearth * sumPositions) / (recentTokens + dearth * recentPositions)
                : 0;
    }

    /** Computing the tokens in [first, end), alone in their steps. */
    double rangeNanos(int first, int end) {
        return nanos(end - first, sumPositions(first, end));
    }

    /** Prompt tokens a second just now; 0 while unknown. */
    double tokensPerSecond() {
        return isKnown() ? 1e9 * recentTokens / recentNanos : 0;
    }

    static double sumPositions(int first, int end) {
        return ((double) end * (end - 1) - (double) first * (first - 1)) / 2;
    }
}
