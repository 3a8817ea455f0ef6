package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
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
                    if (phase > 0 && done.get(phase - 1) != tasks) {
                        overlaps.incrementAndGet();
                    }
                    for (int task = worker.nextTask(); task < tasks; task = worker.nextTask()) {
                        done.incrementAndGet(phase);
                    }
                    worker.barrier();
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
                            if (worker.index() == worker.numWorkers() - 1) {
                                throw failure;
                            }
                            worker.barrier();
                        }));
                assertSame(failure, thrown);
                AtomicInteger ran = new AtomicInteger();
                threads.run(worker -> {
                    worker.barrier();
                    ran.incrementAndGet();
                });
                assertEquals(numThreads, ran.get());
            }
        } finally {
            ComputeThreads.release(threads);
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
