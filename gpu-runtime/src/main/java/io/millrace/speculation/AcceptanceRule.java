package io.millrace.speculation;

import java.util.Locale;

/** When a proposal becomes a token. */
public enum AcceptanceRule {
    /**
     * If and only if it is the token that the target draws itself, with its own noise: the output is bit-equal to the one
     * without speculation. A draft model draws with the same noise, so that it often finds the same token (Gumbel
     * coupling).
     */
    COUPLED,
    /**
     * With probability min(1, p / q), else a token of the residual takes its place (Leviathan, Kalman and Matias, 2023): the
     * output has the same distribution, but is another draw from it.
     */
    ACCEPT_RESAMPLE;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(Locale.ROOT);
    }
}
