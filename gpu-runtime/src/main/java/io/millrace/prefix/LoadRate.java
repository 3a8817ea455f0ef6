package io.millrace.prefix;

/**
 * What a chunk's load takes while the store is kept busy, from those that came. Loads are read in order, so a chunk takes from
 * the answer before it, or from the asking if nothing was on its way, to its own answer. One that is overdue makes all others
 * look as slow. Pure arithmetic over given times; not thread-safe.
 */
final class LoadRate {
    private static final double KEPT = 0.6;
    private static final double KEPT_IN_THE_LONG_RUN = 0.98;
    private static final long STALE_NANOS = 10_000_000_000L; // a bad moment of the disk must not be believed for ever

    private double recentNanos;
    private double recentChunks;
    private double longRunNanos;
    private double longRunChunks;
    private long latestNanos;
    private double atLeastNanos; // what a load had taken that was given up since the last one came

    boolean isKnown() {
        return recentChunks > 0;
    }

    /** Whether what is known is so old that another load should be tried whatever it says. */
    boolean isStale(long now) {
        return isKnown() && now - latestNanos > STALE_NANOS;
    }

    /** Notes that a chunk came, so long after the store had begun with it. */
    void observe(long nanos, long now) {
        recentNanos = recentNanos * KEPT + Math.max(0, nanos);
        recentChunks = recentChunks * KEPT + 1;
        longRunNanos = longRunNanos * KEPT_IN_THE_LONG_RUN + Math.max(0, nanos);
        longRunChunks = longRunChunks * KEPT_IN_THE_LONG_RUN + 1;
        latestNanos = now;
        atLeastNanos = 0;
    }

    /** Notes that a chunk had not come after so long, when it was not needed any more. */
    void observeGivenUp(long nanos, long now) {
        atLeastNanos = Math.max(atLeastNanos, nanos);
        latestNanos = now;
    }

    /** A chunk's load by experience; 0 while there is none. */
    double chunkNanos(long now) {
        boolean isStale = now - latestNanos > STALE_NANOS;
        double seen = !isKnown() ? 0 : isStale ? longRunNanos / longRunChunks : recentNanos / recentChunks;
        // One that was given up late would have taken as long again, on average of all that is not known; one that
        // was not even due says nothing.
        return isStale || atLeastNanos <= seen ? seen : 2 * atLeastNanos;
    }

    /**
     * What the loads that are asked for, and those to come, will take.
     *
     * @param numInFlight loads asked for and not answered
     * @param headNanos how long the first of these has been read
     */
    Forecast forecast(int numInFlight, long headNanos, long now) {
        double usual = chunkNanos(now);
        if (numInFlight == 0) {
            return new Forecast(usual, usual, 0);
        }
        double chunk = Math.max(usual, headNanos);
        double head = headNanos <= usual ? usual - headNanos : headNanos - usual;
        return new Forecast(head, chunk, numInFlight);
    }

    /**
     * Times of loads from now on.
     *
     * @param headNanos until the first answer
     * @param chunkNanos from each answer to the next; infinite where nothing may be asked for
     * @param numInFlight loads asked for and not answered
     */
    record Forecast(double headNanos, double chunkNanos, int numInFlight) {
        static final Forecast NEVER = new Forecast(Double.POSITIVE_INFINITY, Double.POSITIVE_INFINITY, 0);

        /** Until so many answers have come. */
        double nanos(int numChunks) {
            return numChunks == 0 ? 0 : headNanos + (numChunks - 1) * chunkNanos;
        }
    }
}
