package io.millrace.job.stream;

import java.util.Locale;

/** Where reading ends. */
public enum StopAt {
    /** At the end the topic had when the job first started. */
    LATEST;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
