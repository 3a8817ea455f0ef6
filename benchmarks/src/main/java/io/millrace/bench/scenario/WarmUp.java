package io.millrace.bench.scenario;

import java.util.function.DoubleSupplier;

/** Repeats what is to be measured until its time has settled: compilers, caches and clocks have then done their part. */
final class WarmUp {
    private static final double TOLERANCE = 0.03;
    private static final int RUNS_PER_WINDOW = 3;
    private static final int NUM_STABLE_WINDOWS = 2;

    private WarmUp() {}

    /**
     * Runs at least once, until the windows' medians agree within 3 % twice in a row while compilers rest, or maxSeconds have
     * passed.
     */
    static void untilStable(double maxSeconds, DoubleSupplier timedRun) {
        untilStable(maxSeconds, timedRun, new Compilers());
    }

    static void untilStable(double maxSeconds, DoubleSupplier timedRun, Compilers compilers) {
        long deadline = System.nanoTime() + (long) (maxSeconds * 1e9);
        double before = Double.POSITIVE_INFINITY;
        int numStable = 0;
        Samples window = new Samples();
        compilers.begin();
        do {
            window.add(timedRun.getAsDouble());
            if (window.count() == RUNS_PER_WINDOW) {
                double median = window.median();
                boolean isStable = Math.abs(median - before) <= TOLERANCE * before && compilers.haveRested();
                numStable = isStable ? numStable + 1 : 0;
                before = median;
                window = new Samples();
                compilers.begin();
            }
        } while (numStable < NUM_STABLE_WINDOWS && System.nanoTime() < deadline);
    }
}
