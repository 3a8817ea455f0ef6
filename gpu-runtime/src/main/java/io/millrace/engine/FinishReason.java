package io.millrace.engine;

import java.util.Locale;

/** Why a sample ended. */
public enum FinishReason {
    /** An EOS id, a stop id or a stop text. */
    STOP,
    /** max_tokens or the context length. */
    LENGTH,
    /** Cancelled. */
    ABORT;

    /** The format's spelling. */
    public String wireName() {
        return name().toLowerCase(Locale.ROOT);
    }
}
