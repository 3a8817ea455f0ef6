package io.millrace.speculation;

/**
 * How often a lookup's guesses come true, by kind: how long the text before them matches, before how long a filling, and which
 * share of the places that match agree on the token. Begins at that share and follows what was accepted, so that a text in
 * which equal beginnings go on differently stops being guessed at. A kind that has learned of failures and is not guessed slowly
 * returns to the share, and is tried again: sooner where nothing was guessed instead, later where a likelier kind was, since a
 * try takes that one's place.
 */
final class GuessChances {
    private static final int MAX_MATCH_LENGTH = 4;
    private static final int NUM_SHARES = 8;
    private static final double PRIOR_WEIGHT = 4;
    private static final double FADING = 0.98;
    private static final double FADING_OF_LEFT_OUT = 0.997;
    private static final double FADING_OF_BEATEN = 0.998;

    private final double[] numTested = new double[(PromptLookup.MAX_FILLING + 1) * MAX_MATCH_LENGTH * (NUM_SHARES + 1)];
    private final double[] numAccepted = new double[numTested.length];

    /**
     * The kind of a guess.
     *
     * @param filling tokens between the match and the guess
     * @param matchLength tokens that match, proposed ones included; at least 1
     * @param numAgreeing of the places
     * @param numPlaces that match
     */
    static int kind(int filling, int matchLength, int numAgreeing, int numPlaces) {
        int share = Math.round((float) NUM_SHARES * numAgreeing / (numPlaces + 1)); // one place alone proves little
        int match = filling * MAX_MATCH_LENGTH + Math.min(matchLength, MAX_MATCH_LENGTH) - 1;
        return match * (NUM_SHARES + 1) + share;
    }

    /** The chance that a guess of a kind is accepted, those before it accepted. */
    double chance(int kind) {
        return (numAccepted[kind] + PRIOR_WEIGHT * share(kind)) / (numTested[kind] + PRIOR_WEIGHT);
    }

    /** Counts a guess that was verified. */
    void count(int kind, boolean isAccepted) {
        numTested[kind] = numTested[kind] * FADING + 1;
        numAccepted[kind] = numAccepted[kind] * FADING + (isAccepted ? 1 : 0);
    }

    /** Notes that a kind was found and left out, since nothing found was likely enough. */
    void leaveOut(int kind) {
        fadeFailures(kind, FADING_OF_LEFT_OUT);
    }

    /** Notes that a kind was found and another one guessed. */
    void beat(int kind) {
        fadeFailures(kind, FADING_OF_BEATEN);
    }

    /** What speaks for a kind is kept: forgetting it would leave the kind unused, and so unknown, for good. */
    private void fadeFailures(int kind, double fading) {
        if (numAccepted[kind] < share(kind) * numTested[kind]) {
            numTested[kind] *= fading;
            numAccepted[kind] *= fading;
        }
    }

    private static double share(int kind) {
        return (double) (kind % (NUM_SHARES + 1)) / NUM_SHARES;
    }
}
