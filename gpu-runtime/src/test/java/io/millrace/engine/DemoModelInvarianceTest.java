package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.Dtype;
import io.millrace.backend.KvCacheDtype;
import io.millrace.engine.StepReport.PromptScores;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.SpeculationMethod;
import io.millrace.speculation.SpeculationStats;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The whole engine on the demo model and the CPU: with preemption, small chunks, forks and cache hits a sample has the same
 * tokens and the same log probabilities, bit for bit, as alone in an engine with room.
 */
class DemoModelInvarianceTest {
    private static final Path MODEL = Path.of("../models/millrace-tiny");
    private static final Path DRAFT = Path.of("../models/millrace-tiny-draft");
    private static final long ROOMY_BYTES = 32L << 20;
    private static final int NUM_REQUESTS = 16;

    @ParameterizedTest
    @EnumSource(
            value = Dtype.class,
            names = {"AUTO", "FLOAT32"})
    void samplesDoNotDependOnTheBatch(Dtype dtype) throws IOException {
        List<Request> requests = requests();
        Map<String, String> alone = new TreeMap<>();
        long bytesPerBlock;
        try (InferenceEngine engine = open(dtype, 64, 2048, ROOMY_BYTES, false)) {
            bytesPerBlock = ROOMY_BYTES / engine.stats().numBlocks();
            for (Request request : requests) {
                alone.putAll(run(engine, List.of(request)));
            }
        }
        // A long sample fills most of the blocks, chunks below a prompt's length, all at once.
        try (InferenceEngine engine = open(dtype, 20, 24, 12 * bytesPerBlock, true)) {
            assertEquals(alone, run(engine, requests));
            assertTrue(engine.stats().numPreemptions() > 0, "preempted");
            assertTrue(engine.stats().prefixCacheHitTokens() > 0, "found in the cache");
        }
        try (InferenceEngine engine = open(dtype, 64, 300, ROOMY_BYTES, true)) {
            assertEquals(alone, run(engine, requests));
        }
    }

    @Test
    void samplesDoNotDependOnTheBatchWithRoundedKv() throws IOException {
        List<Request> requests = requests();
        Map<String, String> alone = new TreeMap<>();
        long bytesPerBlock;
        EngineConfig roomy = config(Dtype.AUTO, 64, 2048, ROOMY_BYTES, false).withKvCacheDtype(KvCacheDtype.INT8);
        try (InferenceEngine engine = InferenceEngine.open(roomy)) {
            bytesPerBlock = ROOMY_BYTES / engine.stats().numBlocks();
            for (Request request : requests) {
                alone.putAll(run(engine, List.of(request)));
            }
        }
        EngineConfig narrow =
                config(Dtype.AUTO, 20, 24, 12 * bytesPerBlock, true).withKvCacheDtype(KvCacheDtype.INT8);
        try (InferenceEngine engine = InferenceEngine.open(narrow)) {
            assertEquals(alone, run(engine, requests));
            assertTrue(engine.stats().numPreemptions() > 0, "preempted");
        }
    }

    /** Ids, texts, log probabilities and prompt scores, greedy and sampled, with a crowd and with little room. */
    @ParameterizedTest
    @CsvSource({"AUTO, NGRAM", "AUTO, DRAFT_MODEL", "FLOAT32, NGRAM", "FLOAT32, DRAFT_MODEL"})
    void speculationChangesNothing(Dtype dtype, SpeculationMethod method) throws IOException {
        List<Request> requests = requests();
        Map<String, String> plain;
        long bytesPerBlock;
        String fingerprint;
        try (InferenceEngine engine = open(dtype, 64, 2048, ROOMY_BYTES, true)) {
            plain = run(engine, requests);
            bytesPerBlock = ROOMY_BYTES / engine.stats().numBlocks();
            fingerprint = engine.numericFingerprint();
        }
        SpeculativeConfig fixed = speculative(method, 4, AcceptanceRule.COUPLED);
        for (EngineConfig config : List.of(
                config(dtype, 64, 2048, ROOMY_BYTES, true),
                config(dtype, 1, 40, ROOMY_BYTES, true),
                config(dtype, 20, 48, 12 * bytesPerBlock, true),
                config(dtype, 20, 48, 16 * bytesPerBlock, false))) {
            try (InferenceEngine engine = InferenceEngine.open(config.withSpeculative(fixed))) {
                assertEquals(plain, run(engine, requests));
                SpeculationStats stats = engine.stats().speculation();
                assertTrue(stats.numAcceptedTokens() > 100, "accepted: " + stats);
                assertTrue(stats.numProposedTokens() > stats.numAcceptedTokens(), "refused: " + stats);
                assertEquals(fingerprint, engine.numericFingerprint());
                assertEquals(0, engine.stats().numUsedBlocks());
            }
        }
        SpeculativeConfig adaptive = SpeculativeConfig.of(method, fixed.model());
        try (InferenceEngine engine =
                InferenceEngine.open(config(dtype, 64, 2048, ROOMY_BYTES, true).withSpeculative(adaptive))) {
            assertEquals(plain, run(engine, requests));
        }
    }

    /** Greedy output stays what it is under the other rule; the share that both accept is told side by side. */
    @Test
    void bothRulesAcceptMostOfAGoodDraft() throws IOException {
        Map<AcceptanceRule, Double> rates = new EnumMap<>(AcceptanceRule.class);
        Map<String, String> greedy = null;
        for (AcceptanceRule rule : AcceptanceRule.values()) {
            EngineConfig config = config(Dtype.AUTO, 64, 2048, ROOMY_BYTES, true)
                    .withSpeculative(speculative(SpeculationMethod.DRAFT_MODEL, 4, rule));
            try (InferenceEngine engine = InferenceEngine.open(config)) {
                Map<String, String> results = run(engine, requests());
                rates.put(rule, engine.stats().speculation().acceptanceRate());
                results.keySet().removeIf(id -> Integer.parseInt(id.split("[/# ]")[1]) % 3 != 0);
                if (greedy == null) {
                    greedy = results;
                }
                assertEquals(greedy, results);
                assertEquals(
                        rule == AcceptanceRule.ACCEPT_RESAMPLE,
                        engine.numericFingerprint().contains("accept_resample"));
            }
        }
        System.out.println("accepted of millrace-tiny-draft's proposals: " + rates);
        rates.values().forEach(rate -> assertTrue(rate > 0.3, rates.toString()));
    }

    private static SpeculativeConfig speculative(SpeculationMethod method, int numTokens, AcceptanceRule rule) {
        String model = method == SpeculationMethod.DRAFT_MODEL ? DRAFT.toString() : "";
        return new SpeculativeConfig(method, numTokens, false, 4, 1, model, rule);
    }

    private static InferenceEngine open(
            Dtype dtype, int maxNumSeqs, int maxNumBatchedTokens, long kvCacheMemoryBytes, boolean prefixCaching) {
        return InferenceEngine.open(config(dtype, maxNumSeqs, maxNumBatchedTokens, kvCacheMemoryBytes, prefixCaching));
    }

    private static EngineConfig config(
            Dtype dtype, int maxNumSeqs, int maxNumBatchedTokens, long kvCacheMemoryBytes, boolean prefixCaching) {
        return new EngineConfig(
                MODEL.toString(),
                "cpu",
                dtype,
                0,
                maxNumSeqs,
                maxNumBatchedTokens,
                kvCacheMemoryBytes,
                prefixCaching,
                16,
                0,
                LogprobsMode.RAW_LOGPROBS);
    }

    private static Map<String, String> run(InferenceEngine engine, List<Request> requests) {
        Map<String, String> results = new TreeMap<>();
        requests.forEach(engine::submit);
        for (StepReport report = engine.step(); report != null; report = engine.step()) {
            engine.checkIntegrity();
            assertEquals(List.of(), report.failures());
            for (SampleDelta delta : report.deltas()) {
                String news = EngineHarness.text(delta.logprobs());
                if (delta.finished() != null) {
                    assertNotNull(delta.finished().text());
                    news += delta.finished().reason() + " " + delta.finished().text();
                }
                results.merge(delta.requestId() + "#" + delta.sample(), news, String::concat);
            }
            for (PromptScores scores : report.promptScores()) {
                results.put(scores.requestId() + " prompt", EngineHarness.text(scores.logprobs()));
            }
        }
        return results;
    }

    /** The demo's prompts, drawn from with several samples, stops and scores. */
    private static List<Request> requests() throws IOException {
        ObjectMapper json = new ObjectMapper();
        List<Request> requests = new ArrayList<>();
        List<String> lines = Files.readAllLines(MODEL.resolve("expected.jsonl"));
        for (int i = 0; i < NUM_REQUESTS; i++) {
            JsonNode line = json.readTree(lines.get(i * lines.size() / NUM_REQUESTS));
            int[] prompt = json.convertValue(line.get("prompt_token_ids"), int[].class);
            SamplingParams params = SamplingParams.builder()
                    .n(1 + i % 4)
                    .seed(i)
                    .temperature(i % 3 == 0 ? 0 : 1)
                    .topP(i % 5 == 0 ? 0.9f : 1)
                    .repetitionPenalty(i % 6 == 1 ? 1.1f : 1)
                    .maxTokens(30 + i * 4)
                    .ignoreEos(i % 4 == 3)
                    .minTokens(i % 7)
                    .stop(i % 4 == 2 ? List.of("\n\n", "the") : List.of())
                    .numLogprobs(i % 3)
                    .numPromptLogprobs(i % 8 == 3 ? 2 : -1)
                    .build();
            requests.add(new Request(line.get("request_id").asText() + "/" + i, prompt, params));
        }
        return requests;
    }
}
