package io.millrace.bench.tier;

import java.util.Arrays;

/**
 * Bounds of a median by the sign test: below the k-th smallest of n independent values the true median lies with a probability
 * of P(Binomial(n, 1/2) &lt; k), whatever the values' distribution. Stateless.
 */
public final class SignTest {
    /** Most that a bound is wrong. */
    public static final double MAX_ERROR = 0.05;

    private SignTest() {}

    /** A value that the true median is not below, with 95 % confidence; NaN for fewer than 5 values. */
    public static double lowerBound(double[] values) {
        int rank = rank(values.length);
        return rank == 0 ? Double.NaN : sorted(values)[rank - 1];
    }

    /** A value that the true median is not above, with 95 % confidence; NaN for fewer than 5 values. */
    public static double upperBound(double[] values) {
        int rank = rank(values.length);
        return rank == 0 ? Double.NaN : sorted(values)[values.length - rank];
    }

    private static double[] sorted(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted;
    }

    /** The largest k with P(Binomial(n, 1/2) &lt; k) at most the error. */
    static int rank(int n) {
        double probability = Math.pow(0.5, n);
        double below = 0;
        for (int k = 0; ; k++) {
            below += probability;
            if (below > MAX_ERROR) {
                return k;
            }
            probability *= (double) (n - k) / (k + 1);
        }
    }
}
