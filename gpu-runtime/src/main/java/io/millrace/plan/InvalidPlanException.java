package io.millrace.plan;

/** A setting of a plan outside its limits. The message gives option, value, limit and remedy. */
public final class InvalidPlanException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    public InvalidPlanException(String option, Object value, String limit, String remedy) {
        super("option " + option + " = " + value + ": " + limit + "; " + remedy);
    }

    static void requireAtLeast(String option, long value, long min, String remedy) {
        if (value < min) {
            throw new InvalidPlanException(option, value, "must be at least " + min, remedy);
        }
    }

    static void requirePositive(String option, double value, String remedy) {
        if (!(value > 0) || Double.isInfinite(value)) {
            throw new InvalidPlanException(option, value, "must be a positive number", remedy);
        }
    }
}
