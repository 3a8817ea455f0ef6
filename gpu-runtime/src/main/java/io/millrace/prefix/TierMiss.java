package io.millrace.prefix;

import java.util.Locale;

/** Why a chunk did not come from the store. */
public enum TierMiss {
    /** The store never had it, or does not have it any more. */
    NOT_STORED,
    /** The store gave its room to others while it was being read. */
    EVICTED,
    /** The store could not read it. */
    READ_FAILED,
    /** It came, but something about it was wrong: checksum, length, fingerprint, tokens. */
    REFUSED,
    /** It did not come in time. */
    TIMED_OUT,
    /** The store is closed, or was suspended after failures that were counted as such. */
    CLOSED,
    /** The store was not asked, since it had failed repeatedly just before. */
    PAUSED;

    /** Whether something went wrong: a store in which that happens again and again is left alone for a while. */
    public boolean isFailure() {
        return this == READ_FAILED || this == REFUSED || this == TIMED_OUT;
    }

    /** The spelling in metrics. */
    public String metricName() {
        return name().toLowerCase(Locale.ROOT);
    }
}
