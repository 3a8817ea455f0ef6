package io.millrace.bench.scenario;

import java.util.Arrays;

/** Measured values of one quantity. One thread. */
final class Samples {
    private double[] values = new double[16];
    private int count;

    void add(double value) {
        if (count == values.length) {
            values = Arrays.copyOf(values, 2 * count);
        }
        values[count++] = value;
    }

    int count() {
        return count;
    }

    double sum() {
        return Arrays.stream(values, 0, count).sum();
    }

    /** The middle one, or the mean of the middle two; NaN when there are none. */
    double median() {
        if (count == 0) {
            return Double.NaN;
        }
        double[] sorted = Arrays.copyOf(values, count);
        Arrays.sort(sorted);
        return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
    }

    /** All values, in the order in which they were added. */
    double[] values() {
        return Arrays.copyOf(values, count);
    }
}
