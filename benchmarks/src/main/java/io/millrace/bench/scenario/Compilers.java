package io.millrace.bench.scenario;

import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.util.function.LongSupplier;

/**
 * Tells whether the JVM's compilers hardly work any more. Times alone do not tell whether what is measured is compiled: code that
 * waits to be is as stable as any. One thread.
 */
final class Compilers {
    /** Of a core. Compilers go on for minutes with what is called rarely; what runs every step is behind them by then. */
    private static final double MAX_WORKING = 0.03;

    private final LongSupplier workedMillis;
    private long nanosBefore;
    private long millisBefore;

    Compilers() {
        this(Compilers::workedMillis);
    }

    /** @param workedMillis what they have worked so far */
    Compilers(LongSupplier workedMillis) {
        this.workedMillis = workedMillis;
        begin();
    }

    void begin() {
        nanosBefore = System.nanoTime();
        millisBefore = workedMillis.getAsLong();
    }

    /** Whether they have hardly worked since it was last begun. */
    boolean haveRested() {
        double worked = (workedMillis.getAsLong() - millisBefore) * 1e6;
        return worked <= MAX_WORKING * (System.nanoTime() - nanosBefore);
    }

    /** 0 for ever in a JVM that does not compile or does not say. */
    private static long workedMillis() {
        CompilationMXBean compilers = ManagementFactory.getCompilationMXBean();
        return compilers == null || !compilers.isCompilationTimeMonitoringSupported()
                ? 0
                : compilers.getTotalCompilationTime();
    }
}
