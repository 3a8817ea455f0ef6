package io.millrace.bench.ceiling;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Threads that start a piece of work together; oneDNN calls on them stay on them. Used by one thread at a time. */
public final class Crew implements AutoCloseable {
    private final int numThreads;
    private final ExecutorService threads;
    private final CyclicBarrier barrier;
    private final long[] startNanos;
    private final long[] endNanos;

    /** What each member does, by its number. */
    interface Work {
        void run(int member);
    }

    public Crew(int numThreads) {
        this.numThreads = numThreads;
        this.threads = Executors.newFixedThreadPool(numThreads, runnable -> {
            Thread thread = new Thread(
                    () -> {
                        OpenMp.setNumThreads(1);
                        runnable.run();
                    },
                    "bench-ceiling");
            thread.setDaemon(true);
            return thread;
        });
        this.barrier = new CyclicBarrier(numThreads);
        this.startNanos = new long[numThreads];
        this.endNanos = new long[numThreads];
    }

    public int numThreads() {
        return numThreads;
    }

    /** Runs the work on every member at once and returns the seconds from the first start to the last end. */
    double run(Work work) {
        List<Future<?>> futures = new ArrayList<>();
        for (int i = 0; i < numThreads; i++) {
            int member = i;
            futures.add(threads.submit(() -> {
                awaitAll();
                startNanos[member] = System.nanoTime();
                work.run(member);
                endNanos[member] = System.nanoTime();
            }));
        }
        RuntimeException failure = null;
        for (Future<?> future : futures) {
            try {
                future.get();
            } catch (ExecutionException e) {
                failure = new IllegalStateException("measuring a ceiling failed: " + e.getCause(), e.getCause());
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("measuring a ceiling was interrupted", e);
            }
        }
        if (failure != null) {
            throw failure;
        }
        long first = startNanos[0];
        long last = endNanos[0];
        for (int i = 1; i < numThreads; i++) {
            first = Math.min(first, startNanos[i]);
            last = Math.max(last, endNanos[i]);
        }
        return (last - first) / 1e9;
    }

    private void awaitAll() {
        try {
            barrier.await();
        } catch (InterruptedException | BrokenBarrierException e) {
            throw new IllegalStateException("a ceiling's threads could not start together", e);
        }
    }

    @Override
    public void close() {
        threads.shutdownNow();
    }
}
