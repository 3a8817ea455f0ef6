package io.millrace.backend;

/** Nanoseconds of one step (or a sum of steps), split by kind of work. other = total minus the rest. */
public record StepTimes(long totalNanos, long gemmNanos, long attentionNanos, long samplingNanos) {
    public static final StepTimes ZERO = new StepTimes(0, 0, 0, 0);

    public StepTimes plus(StepTimes more) {
        return new StepTimes(
                totalNanos + more.totalNanos,
                gemmNanos + more.gemmNanos,
                attentionNanos + more.attentionNanos,
                samplingNanos + more.samplingNanos);
    }

    public long otherNanos() {
        return totalNanos - gemmNanos - attentionNanos - samplingNanos;
    }
}
