package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.Dtype;
import io.millrace.engine.StepReport.PromptScores;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The whole engine on the demo model and the CPU: with preemption, small chunks, forks and cache hits a sample has the same
 * tokens and the same log probabilities, bit for bit, as alone in an engine with room.
 */
class DemoModelInvarianceTest {
    private static final Path MODEL = Path.of("../models/millrace-tiny");
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

    private static InferenceEngine open(
            Dtype dtype, int maxNumSeqs, int maxNumBatchedTokens, long kvCacheMemoryBytes, boolean prefixCaching) {
        return InferenceEngine.open(new EngineConfig(
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
                LogprobsMode.RAW_LOGPROBS));
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
