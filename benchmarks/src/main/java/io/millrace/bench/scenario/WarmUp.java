package io.millrace.bench.scenario;

import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.util.function.DoubleSupplier;
import java.util.function.LongSupplier;

/** Repeats what is to be measured until its time has settled: compilers, caches and clocks have then done their part. */
final class WarmUp {
    private static final double TOLERANCE = 0.03;
    private static final int RUNS_PER_WINDOW = 3;
    private static final int NUM_STABLE_WINDOWS = 2;

    /** Of a core. Compilers go on for minutes with what is called rarely; what runs every step is behind them by then. */
    private static final double MAX_COMPILING = 0.03;

    private WarmUp() {}

    /**
     * Runs at least once, until the windows' medians agree within 3 % twice in a row while compilers hardly worked, or
     * maxSeconds have passed. Times alone do not tell: code that waits to be compiled again is stable, too.
     */
    static void untilStable(double maxSeconds, DoubleSupplier timedRun) {
        untilStable(maxSeconds, timedRun, WarmUp::compilingMillis);
    }

    /** @param compilingMillis what compilers have worked so far */
    static void untilStable(double maxSeconds, DoubleSupplier timedRun, LongSupplier compilingMillis) {
        long deadline = System.nanoTime() + (long) (maxSeconds * 1e9);
        double before = Double.POSITIVE_INFINITY;
        int numStable = 0;
        Samples window = new Samples();
        long windowStart = System.nanoTime();
        long compiledBefore = compilingMillis.getAsLong();
        do {
            window.add(timedRun.getAsDouble());
            if (window.count() == RUNS_PER_WINDOW) {
                long now = System.nanoTime();
                long compiled = compilingMillis.getAsLong();
                double median = window.median();
                boolean isStable = Math.abs(median - before) <= TOLERANCE * before
                        && (compiled - compiledBefore) * 1e6 <= MAX_COMPILING * (now - windowStart);
                numStable = isStable ? numStable + 1 : 0;
                before = median;
                window = new Samples();
                windowStart = now;
                compiledBefore = compiled;
            }
        } while (numStable < NUM_STABLE_WINDOWS && System.nanoTime() < deadline);
    }

    /** 0 for ever in a JVM that does not compile or does not say. */
    private static long compilingMillis() {
        CompilationMXBean compilers = ManagementFactory.getCompilationMXBean();
        return compilers == null || !compilers.isCompilationTimeMonitoringSupported()
                ? 0
                : compilers.getTotalCompilationTime();
    }
}
