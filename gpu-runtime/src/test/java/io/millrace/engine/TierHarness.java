package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.BatchInput;
import io.millrace.backend.fake.FakeModel;
import io.millrace.prefix.InMemoryPrefixStore;
import io.millrace.sampling.SamplingParams;
import java.util.LinkedHashMap;
import java.util.Optional;
import java.util.Random;
import java.util.function.LongSupplier;

/** An engine with a prefix store on a clock that the test keeps: steps take what their tokens take, loads what the store says. */
final class TierHarness implements AutoCloseable {
    /** Nanoseconds, moved by hand. */
    static final class Clock implements LongSupplier {
        volatile long now = 1; // steps and answers may move it by turns, on their threads

        @Override
        public long getAsLong() {
            return now;
        }
    }

    final Clock clock;
    final InMemoryPrefixStore store;
    final EngineHarness harness;
    final InferenceEngine engine;
    double nanosPerToken = 1_000_000;
    double nanosPerPosition = 0;
    int numWaits;
    long numTokensBelow; // computed tokens of ids below 300
    private int numFloods;

    TierHarness(EngineConfig config, int numBlocks, Clock clock, InMemoryPrefixStore store) {
        this.clock = clock;
        this.store = store;
        engine = new InferenceEngine(
                config,
                new ModelFacts(FakeModel.VOCAB_SIZE, EngineHarness.facts().eosTokenIds(), 1 << 15, "fake model"),
                Optional.empty(),
                new TimedBackend(EngineHarness.backend(config, numBlocks), this::passStep),
                Optional.empty(),
                store,
                clock);
        harness = new EngineHarness(engine, new LinkedHashMap<>());
    }

    private void passStep(BatchInput input) {
        double nanos = 0;
        for (int t = 0; t < input.numTokens(); t++) {
            numTokensBelow += input.tokenIds()[t] < 300 ? 1 : 0;
            nanos += nanosPerToken + (input.tokenIds()[t] < 300 ? 0 : nanosPerPosition * input.positions()[t]);
        }
        passUntil(clock.now + Math.max(1, Math.round(nanos)));
    }

    /** Lets time pass, and answers be given at their times. */
    void passUntil(long nanos) {
        while (store.nextAnswerNanos() <= nanos) {
            clock.now = Math.max(clock.now, store.nextAnswerNanos());
            assertTrue(store.deliver());
        }
        clock.now = Math.max(clock.now, nanos);
    }

    /** A step, or the time until there can be one; false when idle. */
    boolean step() {
        if (harness.step()) {
            return true;
        }
        if (engine.isIdle()) {
            return false;
        }
        long next = Math.min(store.nextAnswerNanos(), engine.wakeNanos());
        assertTrue(next < Long.MAX_VALUE, "the engine waits for nothing");
        numWaits++;
        passUntil(Math.max(next, clock.now));
        return true;
    }

    void runToEnd(int maxSteps) {
        for (int i = 0; step(); i++) {
            int steps = i;
            assertTrue(steps < maxSteps, () -> "no end after " + steps + " steps: " + engine.stats());
        }
        harness.requireAllDone();
    }

    /** Drives all cached blocks out of memory, and does nothing else. */
    void flood(int numBlocks) {
        int numTokens = (numBlocks - 1) * 16;
        int[] tokens = new Random(--numFloods).ints(numTokens, 10, 600).toArray();
        store.setRefusing(true);
        harness.submit(new Request(
                "flood" + numFloods,
                tokens,
                SamplingParams.builder().maxTokens(1).build()));
        runToEnd(100_000);
        store.setRefusing(false);
    }

    @Override
    public void close() {
        engine.close();
        assertTrue(store.isClosed());
    }
}
