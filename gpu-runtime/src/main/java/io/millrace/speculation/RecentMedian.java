package io.millrace.speculation;

import java.util.Arrays;

/** The median of the last measurements of a quantity. */
final class RecentMedian {
    private static final int WINDOW = 15;

    private final double[] recent = new double[WINDOW];
    private final double[] sorted = new double[WINDOW];
    private int numAdded;
    private double value;

    void add(double measured) {
        recent[numAdded % WINDOW] = measured;
        numAdded = numAdded == 2 * WINDOW ? WINDOW + 1 : numAdded + 1;
        int count = count();
        System.arraycopy(recent, 0, sorted, 0, count);
        Arrays.sort(sorted, 0, count);
        value = sorted[count / 2];
    }

    /** How many measurements the median is of. */
    int count() {
        return Math.min(numAdded, WINDOW);
    }

    /** The median; 0 while there are no measurements. */
    double value() {
        return value;
    }
}
