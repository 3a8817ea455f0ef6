package io.millrace.job.stream;

import java.util.Locale;

/** Where a start without a checkpoint begins to read. */
public enum StartFrom {
    EARLIEST,
    LATEST,
    /** At the group's committed offsets; where there are none, at the earliest. */
    COMMITTED;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
