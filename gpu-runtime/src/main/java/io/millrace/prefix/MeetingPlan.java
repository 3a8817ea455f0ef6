package io.millrace.prefix;

import java.util.Arrays;

/**
 * Where computing forward and loading backward should meet, at chunk granularity: of the chunks that are not at hand, the
 * first so many are computed and the others loaded, such that the later of the two ends as early as it can (Cake, Jin et al.).
 * A side that could not finish a chunk before the other has finished everything thereby gets nothing. Planned anew before
 * every step from what is known then, so that an error shows only in the last step. Pure arithmetic, reused; not thread-safe.
 */
final class MeetingPlan {
    /** What steps take. */
    interface StepCost {
        /** A step that computes the tokens [first, first + numTokens) of the prefix, beside what it computes for others. */
        double nanos(int first, int numTokens);
    }

    private final int chunkTokens;
    private int[] chunks = new int[16]; // not at hand, ascending
    private int numChunks;
    private int numUnloadable; // this many must be computed
    private int pointer;
    private int numComputed;
    private double nanos;

    MeetingPlan(int chunkTokens) {
        this.chunkTokens = chunkTokens;
    }

    /** Begins with a prefix that is computed up to a token. */
    void begin(int firstToken) {
        pointer = firstToken;
        numChunks = 0;
        numUnloadable = 0;
        numComputed = 0;
    }

    /** Adds a chunk that is not at hand, in ascending order. */
    void add(int chunk, boolean loadable) {
        if (numChunks == chunks.length) {
            chunks = Arrays.copyOf(chunks, 2 * numChunks);
        }
        chunks[numChunks++] = chunk;
        if (!loadable) {
            numUnloadable = numChunks;
        }
    }

    /**
     * Plans.
     *
     * @param maxStepTokens tokens of the prefix that a step can compute now
     * @param cost of steps
     * @param loads when loads of this prefix are answered
     * @param numAhead loads that are served before those of this prefix
     */
    void plan(int maxStepTokens, StepCost cost, LoadRate.Forecast loads, int numAhead) {
        double best = Double.POSITIVE_INFINITY;
        int bestComputed = numChunks;
        double fullSteps = 0;
        int stepFirst = pointer; // of the step that is being filled
        int stepTokens = 0;
        double step = 0; // an empty step takes what the others in it take
        for (int x = 0; x <= numChunks; x++) {
            if (x > 0) {
                int from = Math.max(pointer, chunks[x - 1] * chunkTokens);
                int left = (chunks[x - 1] + 1) * chunkTokens - from;
                if (stepTokens == 0) {
                    stepFirst = from;
                }
                while (left > 0 && maxStepTokens > 0) {
                    int taken = Math.min(left, maxStepTokens - stepTokens);
                    stepTokens += taken;
                    left -= taken;
                    step = cost.nanos(stepFirst, stepTokens);
                    if (stepTokens == maxStepTokens) {
                        fullSteps += step;
                        step = 0;
                        stepFirst += stepTokens;
                        stepTokens = 0;
                    }
                }
                if (maxStepTokens <= 0) {
                    step = Double.POSITIVE_INFINITY;
                }
            }
            if (x < numUnloadable) {
                continue;
            }
            double compute = fullSteps + step;
            int numLoads = numChunks - x;
            double time = Math.max(compute, numLoads == 0 ? 0 : loads.nanos(numAhead + numLoads));
            if (time < best * (1 - 1e-9)) {
                best = time;
                bestComputed = x;
            }
        }
        numComputed = bestComputed;
        nanos = best;
    }

    /** Chunks not at hand. */
    int numChunks() {
        return numChunks;
    }

    /** The i-th chunk that is not at hand. */
    int chunk(int i) {
        return chunks[i];
    }

    /** How many of the first chunks are to be computed. */
    int numComputed() {
        return numComputed;
    }

    /** How many of the last are to be loaded. */
    int numLoaded() {
        return numChunks - numComputed;
    }

    /** Until the later of the two sides has ended. */
    double nanos() {
        return nanos;
    }

    /** Tokens of the chunks that are to be computed. */
    int numTokensToCompute() {
        int count = 0;
        for (int i = 0; i < numComputed; i++) {
            count += (chunks[i] + 1) * chunkTokens - Math.max(pointer, chunks[i] * chunkTokens);
        }
        return count;
    }

    /**
     * Where computing must stop for now: at the meeting, or at the first chunk on the way that is at hand; the pointer if
     * nothing is to be computed; Integer.MAX_VALUE if all is and nothing is on the way.
     *
     * @param endOfPrefix tokens of it; at or behind the last chunk's end
     */
    int computeEnd(int endOfPrefix) {
        if (numComputed == 0) {
            return numChunks == 0 ? Integer.MAX_VALUE : pointer;
        }
        int i = 1;
        while (i < numComputed && chunks[i] == chunks[i - 1] + 1) {
            i++;
        }
        int end = (chunks[i - 1] + 1) * chunkTokens;
        return i == numChunks && end >= endOfPrefix ? Integer.MAX_VALUE : end;
    }
}
