package io.millrace.operators.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvFormat;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.Request;
import io.millrace.engine.StepReport;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.operators.tier.ChunkIndex.Place;
import io.millrace.prefix.TierConfig;
import io.millrace.prefix.TierMiss;
import io.millrace.prefix.TierStats;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import io.millrace.sampling.TokenLogprobs;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The demo model over a store in state whose mails the test runs, one by one, between the engine's steps. */
class StateTierDoubtTest {
    private static final Path MODEL = Path.of("../models/millrace-tiny");
    private static final int CHUNK_TOKENS = 352; // in float32 two pieces
    private static final long AFFINITY_KEY = 3;
    private static final long MEBIBYTE = 1 << 20;
    private static final TierConfig TIER =
            new TierConfig(KvFormat.AS_COMPUTED, CHUNK_TOKENS, true, 256 * MEBIBYTE, 20_000);

    private final HeapChunkState state = new HeapChunkState();
    private final Queue<Runnable> mails = new ArrayDeque<>();

    private StatePrefixStore store() throws Exception {
        mails.clear();
        StatePrefixStore store = new StatePrefixStore(
                state,
                mails::add,
                new StatePrefixStore.Limits(64 * MEBIBYTE, 0, 64 * MEBIBYTE),
                System::currentTimeMillis,
                () -> Long.MAX_VALUE,
                nanos -> {});
        store.restore();
        store.setGeneration("fingerprint", 0);
        return store;
    }

    private static EngineConfig config(TierConfig tier) {
        return new EngineConfig(
                        MODEL.toString(),
                        "cpu",
                        Dtype.FLOAT32,
                        0,
                        8,
                        128,
                        16 * MEBIBYTE,
                        true,
                        16,
                        2,
                        LogprobsMode.RAW_LOGPROBS)
                .withTier(tier);
    }

    private static Request request() {
        SamplingParams params = SamplingParams.builder()
                .seed(1)
                .temperature(1)
                .maxTokens(12)
                .numLogprobs(2)
                .ignoreEos(true)
                .build();
        int[] prompt = new Random(9).ints(CHUNK_TOKENS + 7, 10, 1000).toArray();
        return new Request("r", prompt, params, 0, "", List.of(), false, AFFINITY_KEY);
    }

    private void drain() {
        while (!mails.isEmpty()) {
            mails.remove().run();
        }
    }

    /** Steps until all is done; returns the tokens with their log probabilities. */
    private String run(InferenceEngine engine, Runnable afterStep) {
        StringBuilder news = new StringBuilder();
        engine.submit(request());
        for (int i = 0; !engine.isIdle(); i++) {
            assertTrue(i < 100_000, "no end: " + engine.stats());
            StepReport report = engine.step();
            afterStep.run();
            drain();
            for (SampleDelta delta : report == null ? List.<SampleDelta>of() : report.deltas()) {
                for (TokenLogprobs entry : delta.logprobs()) {
                    news.append(entry.tokenId())
                            .append(':')
                            .append(entry.logprob())
                            .append(' ');
                }
            }
        }
        return news.toString();
    }

    private void fill() throws Exception {
        StatePrefixStore store = store();
        try (InferenceEngine engine = InferenceEngine.open(config(TIER), store)) {
            run(engine, () -> {});
            for (int i = 0; store.stats().numChunksWritten() == 0; i++) {
                assertTrue(i < 1000, "not written: " + store.stats());
                engine.step();
                drain();
            }
        }
        assertEquals(2, state.pieces.size());
    }

    private static String withoutAStore() {
        try (InferenceEngine engine = InferenceEngine.open(config(null))) {
            return new StateTierDoubtTest().run(engine, () -> {});
        }
    }

    @Test
    void aRightStoreIsLoadedFrom() throws Exception {
        fill();
        try (InferenceEngine engine = InferenceEngine.open(config(TIER), store())) {
            assertEquals(withoutAStore(), run(engine, () -> {}));
            assertEquals(CHUNK_TOKENS, engine.stats().tier().numLoadedTokens());
        }
    }

    @Test
    void aChunkEvictedBetweenItsPiecesIsAMiss() throws Exception {
        fill();
        StatePrefixStore store = store();
        Place place = state.manifests.keySet().iterator().next();
        try (InferenceEngine engine = InferenceEngine.open(config(TIER), store)) {
            boolean[] isEvicted = {false};
            String news = run(engine, () -> {
                if (!isEvicted[0]) {
                    mails.remove().run(); // finds it, and reads its first piece
                    store.index().removeTree(store.index().get(place.affinityKey(), place.key()));
                    isEvicted[0] = true;
                }
            });
            assertEquals(withoutAStore(), news);
            TierStats stats = engine.stats().tier();
            assertEquals(CHUNK_TOKENS, stats.numMissedTokens(TierMiss.EVICTED), stats.toString());
            assertEquals(0, stats.numLoadedTokens());
            assertEquals(0, stats.store().numFailures());
        }
    }
}
