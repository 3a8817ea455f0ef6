package io.millrace.bench.tier;

/**
 * One setting of the grid.
 *
 * @param model whose KV
 * @param hardware what computes
 * @param gbps of the link to the store, gigabits a second
 * @param computePercent of every step's token budget that are the measured prompt's; others fill the rest
 * @param numTokens stored; the prompt has one more
 * @param bits of a stored number
 * @param maxNumBatchedTokens the token budget of a step
 */
public record VirtualCell(
        ServedModel model,
        Hardware hardware,
        double gbps,
        double computePercent,
        int numTokens,
        int bits,
        int maxNumBatchedTokens) {
    /** Tokens of a chunk, as published. */
    public static final int CHUNK_TOKENS = 128;

    public VirtualCell {
        if (numTokens < CHUNK_TOKENS || numTokens % CHUNK_TOKENS != 0) {
            throw new IllegalArgumentException(
                    numTokens + " stored tokens are no whole chunks of " + CHUNK_TOKENS + " tokens");
        }
    }

    public double computeShare() {
        return computePercent / 100;
    }

    public int numChunks() {
        return numTokens / CHUNK_TOKENS;
    }

    /** Tokens of other requests in every step. */
    public int numOtherTokens() {
        return (int) Math.round(maxNumBatchedTokens * (1 - computeShare()));
    }

    public double chunkBytes() {
        return model.storedBytes(CHUNK_TOKENS, bits);
    }

    /** Seconds that loading a chunk takes. */
    public double chunkIoSeconds() {
        return chunkBytes() * Byte.SIZE / (gbps * 1e9);
    }

    /** Seconds that computing the chunk in the middle takes, with what others take of the steps. */
    public double chunkComputeSeconds(ComputeCosts costs) {
        int from = numChunks() / 2 * CHUNK_TOKENS;
        return costs.sharedPromptSeconds(from, from + CHUNK_TOKENS, computeShare());
    }

    /** Tokens of the measured prompt that a step has room for. */
    private int numOwnTokens() {
        return maxNumBatchedTokens - numOtherTokens();
    }

    private double othersSeconds(ComputeCosts costs) {
        return numOtherTokens() * costs.otherTokenSeconds();
    }

    /** Seconds until so many tokens are computed, in as few steps as possible, all with what others have in them. */
    private double computeSeconds(ComputeCosts costs, int end) {
        int numSteps = (end + numOwnTokens() - 1) / numOwnTokens();
        return costs.promptSeconds(0, end) + numSteps * othersSeconds(costs);
    }

    /** The end of the step in which a time lies, if steps of others follow each other from the given end of a step on. */
    private double endOfStep(ComputeCosts costs, double fromSeconds, double seconds) {
        double step = othersSeconds(costs);
        if (seconds <= fromSeconds || step == 0) {
            return Math.max(seconds, fromSeconds);
        }
        return fromSeconds + Math.ceil((seconds - fromSeconds) / step) * step;
    }

    /** Seconds of a step with the prompt's last token and what others have in every step. */
    public double lastStepSeconds(ComputeCosts costs) {
        return costs.promptSeconds(numTokens, numTokens + 1) + othersSeconds(costs);
    }

    /** Seconds to the first token when all is computed. */
    public double computeAloneSeconds(ComputeCosts costs) {
        return computeSeconds(costs, numTokens + 1);
    }

    /** Seconds to the first token when all but the last token is loaded while others are computed. */
    public double ioAloneSeconds(ComputeCosts costs) {
        return endOfStep(costs, 0, numChunks() * chunkIoSeconds()) + lastStepSeconds(costs);
    }

    /**
     * The best that both can do. Steps are not cut short: others have their tokens in every one, and what is loaded during a
     * step is of use after it.
     */
    public IdealMeeting ideal(ComputeCosts costs) {
        IdealMeeting best = new IdealMeeting(computeAloneSeconds(costs), numChunks());
        for (int computed = 0; computed < numChunks(); computed++) {
            double pointer = computeSeconds(costs, computed * CHUNK_TOKENS);
            double loaded = (numChunks() - computed) * chunkIoSeconds();
            double seconds = endOfStep(costs, pointer, loaded) + lastStepSeconds(costs);
            if (seconds < best.seconds()) {
                best = new IdealMeeting(seconds, computed);
            }
        }
        return best;
    }

    /** The best that both could do if steps could be cut short anywhere. */
    public IdealMeeting fluidIdeal(ComputeCosts costs) {
        double[] compute = new double[numChunks() + 1];
        double[] io = new double[numChunks() + 1];
        for (int i = 0; i <= numChunks(); i++) {
            compute[i] = costs.sharedPromptSeconds(0, i * CHUNK_TOKENS, computeShare());
            io[i] = i * chunkIoSeconds();
        }
        double lastToken = costs.sharedPromptSeconds(0, numTokens + 1, computeShare()) - compute[numChunks()];
        return IdealMeeting.of(compute, io, lastStepSeconds(costs), lastToken);
    }

    /** The most that the first token may take to pass: 8 % or one chunk, by load or by computing, over the ideal. */
    public double limitSeconds(ComputeCosts costs) {
        double ideal = ideal(costs).seconds();
        double chunk = Math.max(chunkIoSeconds(), chunkComputeSeconds(costs));
        return Math.max(1.08 * ideal, ideal + chunk);
    }
}
