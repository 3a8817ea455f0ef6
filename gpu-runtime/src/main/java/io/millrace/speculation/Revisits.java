package io.millrace.speculation;

/**
 * When to look again, at one batch size, at what is not done there: a plain step now and then while it speculates, a try while
 * it does not, less and less often.
 */
final class Revisits {
    private static final int PLAIN_INTERVAL = 64;
    private static final int MIN_TRY_INTERVAL = 64;
    private static final int MAX_TRY_INTERVAL = 256;

    private int numStepsSincePlain;
    private int numStepsSinceTry;
    private int tryInterval = MIN_TRY_INTERVAL;

    /** Counts a step; returns whether it is to be a plain one. */
    boolean isPlainDue() {
        if (++numStepsSincePlain <= PLAIN_INTERVAL) {
            return false;
        }
        numStepsSincePlain = 0;
        return true;
    }

    void observePlainStep() {
        numStepsSincePlain = 0;
    }

    /** Counts a step that does not speculate; returns whether it is time to try. The next time comes after twice as many. */
    boolean isTryDue() {
        if (++numStepsSinceTry < tryInterval) {
            return false;
        }
        numStepsSinceTry = 0;
        tryInterval = Math.min(MAX_TRY_INTERVAL, 2 * tryInterval);
        return true;
    }

    /** Notes that speculating pays: should it stop to, the first try comes soon. */
    void observeGain() {
        numStepsSinceTry = 0;
        tryInterval = MIN_TRY_INTERVAL;
    }
}
