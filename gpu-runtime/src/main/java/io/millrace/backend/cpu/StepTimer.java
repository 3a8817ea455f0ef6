package io.millrace.backend.cpu;

import io.millrace.backend.StepTimes;

/** Adds up where a step's time goes, as the first compute thread sees it (waits for the others included). */
final class StepTimer {
    private long start;
    private long last;
    private long gemmNanos;
    private long attentionNanos;
    private long samplingNanos;
    private long totalNanos;

    void begin() {
        start = System.nanoTime();
        last = start;
        gemmNanos = 0;
        attentionNanos = 0;
        samplingNanos = 0;
    }

    /** Time since the last call belongs to nothing in particular. */
    void other() {
        last = System.nanoTime();
    }

    void gemm() {
        long now = System.nanoTime();
        gemmNanos += now - last;
        last = now;
    }

    void attention() {
        long now = System.nanoTime();
        attentionNanos += now - last;
        last = now;
    }

    void sampling() {
        long now = System.nanoTime();
        samplingNanos += now - last;
        last = now;
    }

    void end() {
        totalNanos = System.nanoTime() - start;
    }

    StepTimes times() {
        return new StepTimes(totalNanos, gemmNanos, attentionNanos, samplingNanos);
    }
}
