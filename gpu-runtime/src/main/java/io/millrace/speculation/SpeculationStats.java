package io.millrace.speculation;

/**
 * What speculation did so far.
 *
 * @param numProposedTokens proposals that were verified
 * @param numAcceptedTokens of these accepted; every verified sequence draws one token more
 * @param numStepsOff steps with running sequences in which the cost model expected no gain
 * @param isOff whether the last step was one of these
 */
public record SpeculationStats(long numProposedTokens, long numAcceptedTokens, long numStepsOff, boolean isOff) {
    /** Of an engine that does not speculate. */
    public static final SpeculationStats NONE = new SpeculationStats(0, 0, 0, false);

    /** Accepted over proposed; 0 before the first proposal. */
    public double acceptanceRate() {
        return numProposedTokens == 0 ? 0 : (double) numAcceptedTokens / numProposedTokens;
    }
}
