package io.millrace.bench.report;

import java.util.Objects;

/**
 * A figure held against its limit.
 *
 * @param name what is compared
 * @param value as measured; null where it could not be
 * @param op how value must stand to limit
 * @param limit the bar
 * @param ok whether it does; null where value is
 */
public record Check(String name, Double value, Op op, double limit, Boolean ok) {

    /** Comparisons, under the signs that reports use. */
    public enum Op {
        AT_MOST("<="),
        AT_LEAST(">="),
        LESS("<"),
        GREATER(">"),
        EQUAL("==");

        private final String sign;

        Op(String sign) {
            this.sign = sign;
        }

        public String sign() {
            return sign;
        }

        boolean holds(double value, double limit) {
            return switch (this) {
                case AT_MOST -> value <= limit;
                case AT_LEAST -> value >= limit;
                case LESS -> value < limit;
                case GREATER -> value > limit;
                case EQUAL -> value == limit;
            };
        }
    }

    public Check {
        Objects.requireNonNull(name);
        Objects.requireNonNull(op);
        if (Double.isNaN(limit)) {
            throw new IllegalArgumentException("check '" + name + "' has no limit");
        }
        Boolean expected = value == null ? null : Boolean.valueOf(op.holds(value, limit));
        if (value != null && !Double.isFinite(value) || !Objects.equals(ok, expected)) {
            throw new IllegalArgumentException(
                    "check '" + name + "': value " + value + " " + op.sign() + " " + limit + " is not " + ok);
        }
    }

    /** A check; a value that is null, NaN or infinite could not be measured. */
    public static Check of(String name, Double value, Op op, double limit) {
        boolean measured = value != null && Double.isFinite(value);
        return new Check(name, measured ? value : null, op, limit, measured ? op.holds(value, limit) : null);
    }

    /** Whether it is known to hold. */
    public boolean holds() {
        return Boolean.TRUE.equals(ok);
    }
}
