package io.millrace.sampling;

/** A row of logits that no token can be drawn from: its greatest value is NaN or infinite. */
public final class NonFiniteLogitsException extends ArithmeticException {
    private static final long serialVersionUID = 1L;

    NonFiniteLogitsException(float max) {
        super("no token can be drawn: the greatest logit is " + max
                + (max == Float.NEGATIVE_INFINITY
                        ? " (every token is suppressed)"
                        : " (check the weights, or run with --dtype float32)"));
    }
}
