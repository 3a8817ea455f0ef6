package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.KvFormat;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.prefix.InMemoryPrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.SamplingParams;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The engine's thread while all that there is waits for the prefix store. */
@Timeout(60)
class TierSleepTest {
    private static final int CHUNK = 128;
    private static final int NUM_CHUNKS = 4;
    private static final int NUM_BLOCKS = 200;
    private static final int FIRST_MEASURED_ID = 300;
    private static final SamplingParams ONE =
            SamplingParams.builder().maxTokens(1).build();

    private static final class Listener implements StepListener {
        final List<Integer> tokenIds = new ArrayList<>();
        final CountDownLatch finished = new CountDownLatch(1);
        final AtomicReference<Throwable> death = new AtomicReference<>();

        @Override
        public void onStep(StepReport report) {
            for (SampleDelta delta : report.deltas()) {
                for (int tokenId : delta.tokenIds()) {
                    tokenIds.add(tokenId);
                }
                if (delta.finished() != null) {
                    finished.countDown();
                }
            }
        }

        @Override
        public void onEngineDeath(Throwable cause) {
            death.set(cause);
            finished.countDown();
        }
    }

    private static Thread thread(String name) {
        return Thread.getAllStackTraces().keySet().stream()
                .filter(each -> each.getName().equals(name))
                .findFirst()
                .orElseThrow();
    }

    /** Waits until the engine thread waits for an answer. */
    private static void awaitSleep(Thread thread) throws InterruptedException {
        boolean isAsleep = false;
        while (!isAsleep) {
            Thread.sleep(1);
            for (StackTraceElement frame : thread.getStackTrace()) {
                isAsleep |=
                        frame.getMethodName().equals("awaitAnswer") && thread.getState() == Thread.State.TIMED_WAITING;
            }
        }
    }

    /** A store on the test's clock that holds a prompt's chunks, and an engine that knows that loading them is fast. */
    @Test
    void sleepsUntilTheStoreAnswersAndComputesNothingMeanwhile() throws Exception {
        TierHarness.Clock clock = new TierHarness.Clock();
        InMemoryPrefixStore store = new InMemoryPrefixStore(clock, 1).withTimes(0, 1_000_000);
        TierConfig tier = new TierConfig(KvFormat.AS_COMPUTED, CHUNK, true, 1L << 40, 1_000_000);
        EngineConfig config = EngineHarness.config(16, 512, true, 16).withTier(tier);
        int[] prompt = new Random(7)
                .ints(NUM_CHUNKS * CHUNK + 1, FIRST_MEASURED_ID, FIRST_MEASURED_ID + 290)
                .toArray();
        try (TierHarness tiered = new TierHarness(config, NUM_BLOCKS, clock, store)) {
            tiered.nanosPerToken = 1_000_000; // a chunk is computed in 128 ms, and loaded in one
            tiered.harness.submit(new Request("store", prompt, ONE));
            tiered.runToEnd(1000);
            int expected = tiered.harness.ledger.get("store").sample(0).ids()[0];
            assertEquals(NUM_CHUNKS, store.numChunks());
            tiered.flood(NUM_BLOCKS);
            tiered.harness.submit(new Request("warm", prompt, ONE));
            tiered.runToEnd(1000);
            tiered.flood(NUM_BLOCKS);
            long numLoadedBefore = tiered.engine.stats().tier().numLoadedTokens();
            long numStepsBefore = tiered.engine.stats().numSteps();
            Listener listener = new Listener();
            tiered.engine.start("engine-asleep", listener);
            tiered.engine.submit(new Request("measured", prompt, ONE));
            Thread thread = thread("engine-asleep");
            awaitSleep(thread);
            for (int numAnswers = 0; numAnswers <= NUM_CHUNKS; numAnswers++) { // a find, and the loads
                assertSleeps(thread);
                assertFalse(tiered.engine.isIdle());
                assertEquals(numStepsBefore, tiered.engine.stats().numSteps(), "nothing is worth computing");
                tiered.passUntil(store.nextAnswerNanos());
                if (numAnswers < NUM_CHUNKS) {
                    awaitSleep(thread);
                }
            }
            assertTrue(listener.finished.await(10, TimeUnit.SECONDS));
            assertNull(listener.death.get());
            assertEquals(List.of(expected), listener.tokenIds);
            assertEquals(numStepsBefore + 1, tiered.engine.stats().numSteps(), "only the last token is computed");
            long numLoaded = tiered.engine.stats().tier().numLoadedTokens() - numLoadedBefore;
            assertTrue(
                    numLoaded >= NUM_CHUNKS * CHUNK - 16, numLoaded + " tokens; a block may have been in memory still");
        }
    }

    /** Spinning would take all of the time that passes. */
    private static void assertSleeps(Thread thread) throws InterruptedException {
        var threads = ManagementFactory.getThreadMXBean();
        long before = threads.getThreadCpuTime(thread.getId());
        Thread.sleep(60);
        long nanos = threads.getThreadCpuTime(thread.getId()) - before;
        assertTrue(nanos < 15_000_000, "the engine thread was busy for " + nanos + " ns of 60 ms");
    }
}
