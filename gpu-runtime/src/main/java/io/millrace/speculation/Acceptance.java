package io.millrace.speculation;

/**
 * The chance that a proposal is accepted, those before it accepted: counts that fade, so that it follows a text from one
 * passage to the next.
 */
final class Acceptance {
    private final double fading;
    private double numTested;
    private double numAccepted;

    /** @param fading what a round leaves of the counts before it, in (0, 1) */
    Acceptance(double fading) {
        this.fading = fading;
    }

    /** Counts a verified round: proposals behind the first refused one were not tested. */
    void count(int numProposed, int numAcceptedOfThem) {
        fade();
        numTested += Math.min(numProposed, numAcceptedOfThem + 1);
        numAccepted += numAcceptedOfThem;
    }

    /** Lets a round pass without proposals: what was known grows old. */
    void fade() {
        numTested *= fading;
        numAccepted *= fading;
    }

    /** The estimate, which begins at a prior that weighs as much as priorWeight tests. */
    double rate(double prior, double priorWeight) {
        return (numAccepted + prior * priorWeight) / (numTested + priorWeight);
    }
}
