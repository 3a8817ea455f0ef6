package io.millrace.prefix;

import io.millrace.plan.PrefixCost;

/**
 * What getting a preempted sequence back takes with the rates of the moment: by computing, by loading, or by both from two
 * ends.
 *
 * @param compute known
 * @param loadNanosPerChunk 0 while unknown: then a load is taken to be worth trying
 * @param exportNanosPerChunk what storing a chunk takes the engine; 0 while unknown
 * @param chunkTokens tokens of a chunk
 */
record RestoreCost(ComputeRate compute, double loadNanosPerChunk, double exportNanosPerChunk, int chunkTokens)
        implements PrefixCost {

    @Override
    public double loadSeconds(long numTokens) {
        return numTokens * loadNanosPerChunk / chunkTokens / 1e9;
    }

    @Override
    public double computeSeconds(long firstToken, long endToken) {
        return compute.rangeNanos((int) firstToken, (int) endToken) / 1e9;
    }

    /** Whether storing the last chunks of a victim and getting all of it back from two ends beats computing it again. */
    boolean storingPays(int numChunks, int numToStore) {
        long numTokens = (long) numChunks * chunkTokens;
        return numToStore * exportNanosPerChunk / 1e9 + bothSeconds(numTokens) < computeSeconds(0, numTokens);
    }
}
