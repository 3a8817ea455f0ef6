package io.millrace.prefix;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether the store is worth asking: after several failures in a row it is left alone for a while, each time twice as long,
 * until it has served something again. Says once why. Not thread-safe.
 */
final class StoreHealth {
    private static final Logger LOG = LoggerFactory.getLogger(StoreHealth.class);

    static final int MAX_FAILURES = 3;
    private static final long FIRST_PAUSE_NANOS = 1_000_000_000L;
    private static final long LONGEST_PAUSE_NANOS = 64 * FIRST_PAUSE_NANOS;

    private int numFailures; // in a row
    private long pauseNanos = FIRST_PAUSE_NANOS;
    private long pausedUntil;
    private boolean paused;
    private boolean logged;

    boolean mayAsk(long now) {
        if (paused && now - pausedUntil >= 0) {
            paused = false;
            numFailures = MAX_FAILURES - 1; // one more failure pauses again
        }
        return !paused;
    }

    void succeeded() {
        numFailures = 0;
        pauseNanos = FIRST_PAUSE_NANOS;
    }

    /** Notes a failure; that something is not stored is none. */
    void failed(TierMiss kind, String reason, long now) {
        if (!logged) {
            logged = true;
            LOG.warn(
                    "The prefix store failed ({}: {}). Such chunks are computed, outputs stay the same, and what fails is"
                            + " counted in the tier's metrics; this is said once. Look at the store's disk and log.",
                    kind.metricName(),
                    reason);
        }
        if (++numFailures >= MAX_FAILURES && !paused) {
            paused = true;
            pausedUntil = now + pauseNanos;
            pauseNanos = Math.min(LONGEST_PAUSE_NANOS, 2 * pauseNanos);
        }
    }
}
