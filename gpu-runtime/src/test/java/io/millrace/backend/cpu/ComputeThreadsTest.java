package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ComputeThreadsTest {

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 5})
    void everyTaskOfEveryPhaseRunsOnceAndPhasesDoNotOverlap(int numThreads) {
        ComputeThreads threads = ComputeThreads.acquire(numThreads);
        try {
            int phases = 300;
            int tasks = 7;
            AtomicIntegerArray done = new AtomicIntegerArray(phases);
            AtomicInteger overlaps = new AtomicInteger();
            threads.run(worker -> {
                for (int phase = 0; phase < phases; phase++) {
                    for (int task = worker.firstTask(tasks); task >= 0; task = worker.nextTask()) {
                        if (phase > 0 && done.get(phase - 1) != tasks) {
                            overlaps.incrementAndGet();
                        }
                        done.incrementAndGet(phase);
                    }
                    if (done.get(phase) != tasks) {
                        overlaps.incrementAndGet();
                    }
                    worker.firstTask(0);
                }
            });
            assertEquals(0, overlaps.get());
            for (int phase = 0; phase < phases; phase++) {
                assertEquals(tasks, done.get(phase), "phase " + phase);
            }
        } finally {
            ComputeThreads.release(threads);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 4})
    void aFailureReachesTheCallerAndTheThreadsGoOn(int numThreads) {
        ComputeThreads threads = ComputeThreads.acquire(numThreads);
        try {
            IllegalStateException failure = new IllegalStateException("broken");
            for (int repeat = 0; repeat < 50; repeat++) {
                IllegalStateException thrown = assertThrows(
                        IllegalStateException.class,
                        () -> threads.run(worker -> {
                            for (int task = worker.firstTask(9); task >= 0; task = worker.nextTask()) {
                                if (task == 5) {
                                    throw failure;
                                }
                            }
                        }));
                assertSame(failure, thrown);
                AtomicInteger ran = new AtomicInteger();
                threads.run(worker -> ran.incrementAndGet());
                assertEquals(numThreads, ran.get());
            }
        } finally {
            ComputeThreads.release(threads);
        }
    }

    @Test
    void aWorkerThatIsKeptAwayHoldsNobodyUp() {
        ComputeThreads threads = ComputeThreads.acquire(2);
        try {
            CountDownLatch othersAreDone = new CountDownLatch(1);
            AtomicInteger numTasks = new AtomicInteger();
            threads.run(worker -> {
                if (worker.index() == 1) {
                    await(othersAreDone);
                }
                for (int phase = 0; phase < 100; phase++) {
                    for (int task = worker.firstTask(3); task >= 0; task = worker.nextTask()) {
                        numTasks.incrementAndGet();
                    }
                }
                othersAreDone.countDown();
            });
            assertEquals(300, numTasks.get());
        } finally {
            ComputeThreads.release(threads);
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void holdersShareTheThreadsAndTheLastOneEndsThem(int numThreads) {
        ComputeThreads first = ComputeThreads.acquire(numThreads);
        ComputeThreads second = ComputeThreads.acquire(numThreads + 1);
        assertSame(first, second);
        ComputeThreads.release(first);
        AtomicInteger ran = new AtomicInteger();
        second.run(worker -> ran.incrementAndGet());
        assertEquals(numThreads, ran.get());
        ComputeThreads.release(second);
        assertTrue(Thread.getAllStackTraces().keySet().stream()
                .noneMatch(thread -> thread.getName().startsWith("millrace-compute-")));
    }
}
