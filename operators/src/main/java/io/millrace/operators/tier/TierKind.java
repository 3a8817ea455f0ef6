package io.millrace.operators.tier;

import java.util.Locale;

/** Where KV of prefixes is kept below the block pool. */
public enum TierKind {
    /** Nowhere. */
    NONE,
    /** In Flink's keyed state: survives failures and rescaling, and is in every checkpoint. */
    STATE,
    /** In a database on the TaskManager's local disk: in no checkpoint, and cold after a failure. */
    DISK;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(Locale.ROOT);
    }
}
