package io.millrace.job.stream;

import java.util.Locale;

/** When results show. */
public enum Delivery {
    /** With each checkpoint, once, to readers with read_committed. */
    EXACTLY_ONCE,
    /** At once; after a failure some again, with equal bits, de-duplicable by request_id and index. */
    AT_LEAST_ONCE;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
