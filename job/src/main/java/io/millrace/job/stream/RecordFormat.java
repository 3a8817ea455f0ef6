package io.millrace.job.stream;

import java.util.Locale;

/** How records are written. */
public enum RecordFormat {
    JSON,
    /** Avro's single-object encoding. */
    AVRO;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
