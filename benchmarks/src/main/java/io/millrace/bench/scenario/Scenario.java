package io.millrace.bench.scenario;

import io.millrace.bench.report.Report;

/** One thing to measure. Runs on the caller's thread; engines and threads it starts are gone when it returns. */
public interface Scenario {
    Report run(BenchSettings settings) throws InterruptedException;
}
