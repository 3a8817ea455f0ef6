package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.fake.FakeBackend;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.sampling.SamplingParams;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The engine's thread: hand-over from other threads, back-pressure, death and closing. */
@Timeout(60)
class EngineThreadTest {
    private static final EngineConfig CONFIG = EngineHarness.config(16, 128, true, 16);

    /** Counts finished samples per request. */
    private static class Collector implements StepListener {
        final Map<String, Integer> numFinished = new ConcurrentHashMap<>();
        final Map<String, FinishReason> reasons = new ConcurrentHashMap<>();
        final AtomicReference<Throwable> death = new AtomicReference<>();
        final CountDownLatch died = new CountDownLatch(1);

        @Override
        public void onStep(StepReport report) throws InterruptedException {
            assertFalse(report.deltas().isEmpty() && report.failures().isEmpty(), "only steps with news are reported");
            for (SampleDelta delta : report.deltas()) {
                if (delta.finished() != null) {
                    numFinished.merge(delta.requestId(), 1, Integer::sum);
                    reasons.put(delta.requestId(), delta.finished().reason());
                }
            }
        }

        @Override
        public void onEngineDeath(Throwable cause) {
            death.set(cause);
            died.countDown();
        }
    }

    private static InferenceEngine open(EngineConfig config, int numBlocks) {
        return new InferenceEngine(
                config, EngineHarness.facts(), Optional.empty(), EngineHarness.backend(config, numBlocks));
    }

    private static Request request(String id, int maxTokens, int... prompt) {
        return new Request(
                id,
                prompt,
                SamplingParams.builder()
                        .n(2)
                        .maxTokens(maxTokens)
                        .ignoreEos(true)
                        .build());
    }

    private static void awaitIdle(InferenceEngine engine) throws InterruptedException {
        while (!engine.isIdle()) {
            Thread.sleep(1);
        }
    }

    private static boolean isAlive(String threadName) {
        return Thread.getAllStackTraces().keySet().stream()
                .anyMatch(thread -> thread.getName().equals(threadName));
    }

    @Test
    void servesManyThreads() throws Exception {
        Collector collector = new Collector();
        try (InferenceEngine engine = open(CONFIG, 200)) {
            assertTrue(engine.isIdle());
            engine.start("engine-many", collector);
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 4; t++) {
                int thread = t;
                threads.add(new Thread(() -> {
                    for (int i = 0; i < 50; i++) {
                        engine.submit(request(thread + "-" + i, 1 + i % 20, 10 + thread, 20 + i, 7));
                    }
                }));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            awaitIdle(engine);
            assertEquals(200, collector.numFinished.size());
            assertTrue(collector.numFinished.values().stream().allMatch(count -> count == 2));
            EngineStats stats = engine.stats();
            assertEquals(0, stats.numRunningSequences() + stats.numWaitingSequences() + stats.numUsedBlocks());
            engine.submit(request("after a pause", 3, 5));
            awaitIdle(engine);
            assertEquals(2, collector.numFinished.get("after a pause"));
        }
        assertNull(collector.death.get());
        assertFalse(isAlive("engine-many"));
    }

    @Test
    void aBlockedListenerHoldsTheEngineAndCloseInterruptsIt() throws Exception {
        CountDownLatch inListener = new CountDownLatch(1);
        Collector collector = new Collector() {
            @Override
            public void onStep(StepReport report) throws InterruptedException {
                inListener.countDown();
                new CountDownLatch(1).await();
            }
        };
        InferenceEngine engine = open(CONFIG, 200);
        engine.start("engine-blocked", collector);
        engine.submit(request("a", 1000, 5));
        assertTrue(inListener.await(10, TimeUnit.SECONDS));
        assertFalse(engine.isIdle());
        assertEquals(1, engine.stats().numSteps());
        engine.close();
        engine.close();
        assertFalse(isAlive("engine-blocked"));
        assertNull(collector.death.get(), "closing is no death");
        engine.submit(request("late", 1, 5)); // goes nowhere, harms nothing
        assertThrows(IllegalStateException.class, () -> engine.start("again", collector));
    }

    @Test
    void closesWhileIdleWhileRunningAndWithoutAStart() {
        for (int i = 0; i < 3; i++) {
            InferenceEngine engine = open(CONFIG, 200);
            if (i > 0) {
                engine.start("engine-closed", new Collector());
            }
            if (i > 1) {
                engine.submit(request("a", 4000, 5));
            }
            engine.close();
            assertFalse(isAlive("engine-closed"));
        }
    }

    @Test
    void cancelsWhileRunning() throws Exception {
        Collector collector = new Collector();
        try (InferenceEngine engine = open(CONFIG, 600)) {
            engine.start("engine-cancel", collector);
            engine.submit(request("long", 4000, 5));
            engine.submit(request("short", 3, 5));
            engine.cancel("long");
            awaitIdle(engine);
        }
        assertEquals(FinishReason.ABORT, collector.reasons.get("long"));
        assertEquals(FinishReason.LENGTH, collector.reasons.get("short"));
    }

    @Test
    void deathIsToldOnce() throws Exception {
        Collector collector = new Collector();
        try (InferenceEngine engine = open(CONFIG, 200)) {
            engine.start("engine-death", collector);
            engine.submit(request("crash", 3, FakeBackend.CRASH_TOKEN_ID));
            assertTrue(collector.died.await(10, TimeUnit.SECONDS));
            assertInstanceOf(IllegalStateException.class, collector.death.get());
            engine.submit(request("late", 3, 5));
        }
        assertFalse(isAlive("engine-death"));
    }

    @Test
    void aListenerThatThrowsIsADeathToo() throws Exception {
        Collector collector = new Collector() {
            @Override
            public void onStep(StepReport report) {
                throw new IllegalArgumentException("ledger is broken");
            }
        };
        try (InferenceEngine engine = open(CONFIG, 200)) {
            engine.start("engine-listener", collector);
            engine.submit(request("a", 3, 5));
            assertTrue(collector.died.await(10, TimeUnit.SECONDS));
            assertEquals("ledger is broken", collector.death.get().getMessage());
        }
    }

    @Test
    void theEngineThreadCannotCloseItself() throws Exception {
        AtomicReference<InferenceEngine> engine = new AtomicReference<>();
        AtomicReference<Throwable> refusal = new AtomicReference<>();
        CountDownLatch tried = new CountDownLatch(1);
        Collector collector = new Collector() {
            @Override
            public void onStep(StepReport report) {
                refusal.compareAndSet(
                        null,
                        assertThrows(
                                IllegalStateException.class, () -> engine.get().close()));
                tried.countDown();
            }
        };
        engine.set(open(CONFIG, 200));
        engine.get().start("engine-self", collector);
        engine.get().submit(request("a", 1, 5));
        assertTrue(tried.await(10, TimeUnit.SECONDS));
        assertNotNull(refusal.get());
        engine.get().close();
    }

    @Test
    void stepAndStartExcludeEachOther() {
        try (InferenceEngine engine = open(CONFIG, 200)) {
            assertNull(engine.step());
            engine.start("engine-both", new Collector());
            assertThrows(IllegalStateException.class, engine::step);
            assertThrows(IllegalStateException.class, () -> engine.start("twice", new Collector()));
        }
    }

    @Test
    void unknownDevicesAndContextsBeyondTheModelsAreRefused(@org.junit.jupiter.api.io.TempDir java.nio.file.Path dir) {
        InvalidConfigException device =
                assertThrows(InvalidConfigException.class, () -> InferenceEngine.open(withDevice(CONFIG, "tpu", 0)));
        assertTrue(device.getMessage().contains("tpu") && device.getMessage().contains("fake"), device.getMessage());
        io.millrace.backend.fake.FakeModel.write(dir, 512);
        EngineConfig tooLong = new EngineConfig(
                dir.toString(), "fake", CONFIG.dtype(), 513, 1, 1, 1 << 20, true, 16, 0, CONFIG.logprobsMode());
        InvalidConfigException length = assertThrows(InvalidConfigException.class, () -> InferenceEngine.open(tooLong));
        assertTrue(length.getMessage().contains("--max-model-len = 513"), length.getMessage());
        EngineConfig tooSmall = new EngineConfig(
                dir.toString(), "fake", CONFIG.dtype(), 0, 1, 1, 100, true, 16, 0, CONFIG.logprobsMode());
        InvalidConfigException memory =
                assertThrows(InvalidConfigException.class, () -> InferenceEngine.open(tooSmall));
        assertTrue(memory.getMessage().contains("--kv-cache-memory-bytes = 100"), memory.getMessage());
    }

    private static EngineConfig withDevice(EngineConfig config, String device, int maxModelLen) {
        return new EngineConfig(
                config.model(),
                device,
                config.dtype(),
                maxModelLen,
                config.maxNumSeqs(),
                config.maxNumBatchedTokens(),
                config.kvCacheMemoryBytes(),
                config.enablePrefixCaching(),
                config.blockSize(),
                config.numThreads(),
                config.logprobsMode());
    }

    /** Decoding allocates a few small records a token (the report's and the row's), nothing that grows with the context. */
    @Test
    void steadyDecodeAllocatesLittle() {
        com.sun.management.ThreadMXBean threads =
                (com.sun.management.ThreadMXBean) java.lang.management.ManagementFactory.getThreadMXBean();
        EngineConfig config = EngineHarness.config(64, 4096, true, 16);
        try (InferenceEngine engine = open(config, 5000)) {
            for (int i = 0; i < 64; i++) {
                engine.submit(new Request(
                        "r" + i,
                        new int[] {10 + i},
                        SamplingParams.builder().maxTokens(1000).ignoreEos(true).build()));
            }
            for (int i = 0; i < 300; i++) {
                engine.step();
            }
            long before = threads.getCurrentThreadAllocatedBytes();
            long tokens = 0;
            for (int i = 0; i < 300; i++) {
                tokens += engine.step().deltas().size();
            }
            long perToken = (threads.getCurrentThreadAllocatedBytes() - before) / tokens;
            System.out.println("bytes allocated per decoded token: " + perToken);
            assertTrue(perToken < 400, perToken + " bytes a token");
        }
    }
}
