package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvFormat;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.prefix.InMemoryPrefixStore;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** On the demo model and the CPU: loaded, computed or met in between, tokens and log probabilities are the same bits. */
class TierDemoModelTest {
    private static final Path MODEL = Path.of("../models/millrace-tiny");
    private static final int CHUNK = 32;

    private static EngineConfig config(TierConfig tier, long kvCacheMemoryBytes) {
        return new EngineConfig(
                        MODEL.toString(),
                        "cpu",
                        Dtype.AUTO,
                        0,
                        8,
                        96,
                        kvCacheMemoryBytes,
                        true,
                        16,
                        0,
                        LogprobsMode.RAW_LOGPROBS)
                .withTier(tier);
    }

    private static List<Request> requests() {
        Random random = new Random(1);
        int[] document = random.ints(200, 10, 250).toArray();
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int[] prompt = random.ints(150 + 10 * i, 10, 250).toArray();
            System.arraycopy(document, 0, prompt, 0, 20 + 16 * i);
            requests.add(new Request(
                    "r" + i,
                    prompt,
                    SamplingParams.builder()
                            .seed(i)
                            .n(1 + i % 2)
                            .temperature(i % 3 == 0 ? 0 : 1)
                            .maxTokens(40)
                            .ignoreEos(true)
                            .numLogprobs(1)
                            .build()));
        }
        return requests;
    }

    private static Map<String, String> run(InferenceEngine engine, InMemoryPrefixStore store, List<Request> requests) {
        Map<String, String> results = new TreeMap<>();
        requests.forEach(engine::submit);
        do {
            StepReport report = engine.step();
            while (store != null && store.deliver()) {}
            engine.checkIntegrity();
            if (report != null) {
                assertEquals(List.of(), report.failures());
                for (SampleDelta delta : report.deltas()) {
                    results.merge(
                            delta.requestId() + "#" + delta.sample(),
                            EngineHarness.text(delta.logprobs()),
                            String::concat);
                }
            }
        } while (!engine.isIdle());
        return results;
    }

    @ParameterizedTest
    @EnumSource(KvFormat.class)
    void outputsAreTheSameBits(KvFormat format) {
        TierConfig tier = new TierConfig(format, CHUNK, true, 64 << 20, 10_000);
        List<Request> requests = requests();
        Map<String, String> expected;
        try (InferenceEngine engine =
                InferenceEngine.open(config(format.isLossy() ? tier : null, 32L << 20), (PrefixStore) null)) {
            expected = new TreeMap<>();
            for (Request request : requests) {
                expected.putAll(run(engine, null, List.of(request)));
            }
        }
        long bytesPerBlock;
        try (InferenceEngine engine = InferenceEngine.open(config(null, 32L << 20))) {
            bytesPerBlock = (32L << 20) / engine.stats().numBlocks();
        }
        InMemoryPrefixStore store = new InMemoryPrefixStore(System::nanoTime, 1).withTimes(1000, 20_000);
        try (InferenceEngine engine = InferenceEngine.open(config(tier, 40 * bytesPerBlock), store)) {
            for (int round = 0; round < 3; round++) {
                assertEquals(expected, run(engine, store, requests), "round " + round);
            }
            assertTrue(
                    engine.stats().tier().numLoadedTokens() > 0,
                    "loaded: " + engine.stats().tier());
            assertTrue(engine.stats().numPreemptions() > 0, "preempted");
        }
    }
}
