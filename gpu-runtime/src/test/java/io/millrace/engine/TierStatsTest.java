package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.prefix.InMemoryPrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.SamplingParams;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** What the engine says of its prefix store when no step follows any more. */
class TierStatsTest {
    private static final int NUM_CHUNKS = 5;

    /** Steps are so short that the chunks' turn comes only when the engine is idle. */
    @Test
    void chunksStoredWhileIdleAreCounted() {
        TierHarness.Clock clock = new TierHarness.Clock();
        InMemoryPrefixStore store = new InMemoryPrefixStore(clock, 1);
        TierConfig tier =
                new TierConfig(TierConfig.DEFAULT.format(), 128, true, TierConfig.DEFAULT.maxBufferBytes(), 10_000);
        EngineConfig config = EngineHarness.config(16, 1024, true, 16).withTier(tier);
        try (TierHarness harness = new TierHarness(config, 100, clock, store)) {
            harness.nanosPerToken = 1;
            harness.harness.submit(new Request(
                    "one",
                    new Random(1).ints(NUM_CHUNKS * 128 + 20, 10, 600).toArray(),
                    SamplingParams.builder().maxTokens(1).build()));
            harness.runToEnd(100);
            assertEquals(NUM_CHUNKS, store.numChunks());
            assertEquals(NUM_CHUNKS, harness.engine.stats().tier().numChunksExported());
            assertEquals(NUM_CHUNKS, harness.engine.stats().tier().store().numChunks());
            assertEquals(0, harness.engine.stats().tier().numChunksDropped());
            store.forgetAll();
            assertEquals(
                    0, harness.engine.stats().tier().store().numChunks(), "the store's own counters are as of now");
        }
    }
}
