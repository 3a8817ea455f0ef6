package io.millrace.bench.scenario;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.function.LongSupplier;

/**
 * Tokens per second of a served file of requests, over the time in which every slot is taken: from when a first slot's worth
 * of requests has ended until no more than that is left. Fed with counts as they are seen. One thread.
 */
final class SteadyWindow {
    private static final String COMPUTE_THREADS = "millrace-compute-";

    private final long firstCompleted;
    private final long lastCompleted;
    private final LongSupplier computeCpuNanos;
    private final LongSupplier nanoClock;
    private Seen start;
    private Seen end;
    private boolean over;

    /** What was seen when; the counts are older than that. */
    private record Seen(long countedNanos, long tokens, long seenNanos, long computeCpuNanos) {}

    SteadyWindow(int numRequests, int numSlots) {
        this(numRequests, numSlots, computeThreadsCpu(), System::nanoTime);
    }

    /**
     * A window.
     *
     * @param computeCpuNanos CPU time of the compute threads so far; negative if unknown
     * @param nanoClock of the time between two such figures
     */
    SteadyWindow(int numRequests, int numSlots, LongSupplier computeCpuNanos, LongSupplier nanoClock) {
        if (numRequests <= 2 * numSlots) {
            throw new IllegalArgumentException(numRequests + " requests leave no steady window for " + numSlots
                    + " slots; take more than twice as many");
        }
        firstCompleted = numSlots;
        lastCompleted = numRequests - numSlots;
        this.computeCpuNanos = computeCpuNanos;
        this.nanoClock = nanoClock;
    }

    /**
     * Notes what had been completed and generated at a time.
     *
     * @param countedNanos when that many had been generated, by the engine's clock: up to a step before they are seen
     */
    void observe(long countedNanos, long numCompleted, long numGeneratedTokens) {
        over |= numCompleted > lastCompleted;
        if (numCompleted < firstCompleted || over) {
            return;
        }
        if (start == null) {
            start = seen(countedNanos, numGeneratedTokens);
            end = start;
        } else if (numGeneratedTokens > end.tokens()) {
            end = seen(countedNanos, numGeneratedTokens);
        }
    }

    private Seen seen(long countedNanos, long tokens) {
        return new Seen(countedNanos, tokens, nanoClock.getAsLong(), computeCpuNanos.getAsLong());
    }

    /** Whether slots stand empty: what is seen from now on does not count. */
    boolean isOver() {
        return over;
    }

    /** NaN where the window was too short to see two counts. */
    double tokensPerSecond() {
        return seconds() > 0 ? (end.tokens() - start.tokens()) / seconds() : Double.NaN;
    }

    double seconds() {
        return start == null ? 0 : (end.countedNanos() - start.countedNanos()) / 1e9;
    }

    /** Cores' time that the compute threads had, in cores; NaN where it is not known. */
    double computeCores() {
        return seconds() > 0 && start.computeCpuNanos() >= 0
                ? (double) (end.computeCpuNanos() - start.computeCpuNanos()) / (end.seenNanos() - start.seenNanos())
                : Double.NaN;
    }

    /** The CPU time of the threads that compute now, whichever engine they work for. */
    private static LongSupplier computeThreadsCpu() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        if (!threads.isThreadCpuTimeSupported() || !threads.isThreadCpuTimeEnabled()) {
            return () -> -1;
        }
        long[] ids = Arrays.stream(threads.getThreadInfo(threads.getAllThreadIds()))
                .filter(info -> info != null && info.getThreadName().startsWith(COMPUTE_THREADS))
                .mapToLong(info -> info.getThreadId())
                .toArray();
        return () -> Arrays.stream(ids).map(threads::getThreadCpuTime).sum();
    }
}
