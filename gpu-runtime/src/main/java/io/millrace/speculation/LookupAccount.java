package io.millrace.speculation;

/**
 * What lookups cost and saved at one batch size, in plain steps. A lookup is paid for whether it finds a guess or not, so where
 * texts offer nothing sure enough it is a loss, however well the few guesses were chosen. Judged in periods of some lookups, so
 * that one text without luck does not count for much.
 */
final class LookupAccount {
    private static final int LOOKUPS_PER_PERIOD = 128;
    private static final int ROUNDS_PER_PERIOD = 4;

    /** Of a plain step; not worth a decision: at one sequence a lookup costs less, so that no text turns lookups off there. */
    private static final double MAX_LOSS = 0.005;

    /** A round that took longer is a thread that lost its core, or a loss anyway. */
    private static final double MAX_ROUND_COST = 0.1;

    private int numRounds;
    private int numLookups;
    private double spent;
    private double saved;

    /** Notes a round of lookups and the plain steps that it took. */
    void observeLookups(int numSequences, double plainSteps) {
        numRounds++;
        numLookups += numSequences;
        spent += Math.min(MAX_ROUND_COST, plainSteps);
    }

    /** Notes the plain steps that verifying what was found took. */
    void observeVerifying(double plainSteps) {
        spent += plainSteps;
    }

    /** Notes the plain steps that accepted guesses saved. */
    void observeSaved(double plainSteps) {
        saved += plainSteps;
    }

    /** Whether there is enough to judge by. */
    boolean isPeriodOver() {
        return numRounds >= ROUNDS_PER_PERIOD && numLookups >= LOOKUPS_PER_PERIOD;
    }

    /** Ends a period and begins the next; returns whether lookups cost more than they saved. */
    boolean endPeriod() {
        boolean isLoss = spent - saved > MAX_LOSS * numRounds;
        numRounds = 0;
        numLookups = 0;
        spent = 0;
        saved = 0;
        return isLoss;
    }
}
