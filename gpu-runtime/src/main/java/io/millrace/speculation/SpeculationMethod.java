package io.millrace.speculation;

import java.util.Locale;

/** Where proposals come from, under vLLM's names. */
public enum SpeculationMethod {
    /** No speculation. */
    NONE,
    /** What followed the last tokens where they occurred before in the request's own text. */
    NGRAM,
    /** A smaller model of the same vocabulary. */
    DRAFT_MODEL;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(Locale.ROOT);
    }
}
