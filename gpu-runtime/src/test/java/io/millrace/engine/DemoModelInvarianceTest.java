package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.Dtype;
import io.millrace.backend.KvCacheDtype;
import io.millrace.engine.EngineHarness.Entry;
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
import java.util.Arrays;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
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
    private static final int NUM_TOKENS_OF_VICTIM = 32;

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

    /** Restored from its ledger after every single step, with nothing cached and another token budget. */
    @Test
    void restoringAfterEveryStepChangesNothing() throws IOException {
        List<Request> requests = requests().subList(3, 7);
        try (InferenceEngine before = open(Dtype.AUTO, 6, 40, ROOMY_BYTES, true);
                InferenceEngine after = open(Dtype.AUTO, 64, 100, ROOMY_BYTES, false)) {
            EngineHarness whole = new EngineHarness(before, new LinkedHashMap<>());
            requests.forEach(whole::submit);
            whole.runToEnd(10_000);
            for (int stop = 1; stop < whole.numSteps; stop++) {
                EngineHarness first = new EngineHarness(before, new LinkedHashMap<>());
                requests.forEach(first::submit);
                while (first.numSteps < stop && first.step()) {}
                EngineHarness second = new EngineHarness(after, first.ledger);
                second.resume();
                second.runToEnd(10_000);
                assertEquals(describe(whole.ledger), describe(second.ledger), "restored after step " + stop);
                requests.forEach(request -> before.cancel(request.id()));
                while (before.step() != null) {}
            }
            assertTrue(whole.numSteps > 40, "steps: " + whole.numSteps);
        }
    }

    /**
     * An older request takes a newer one's blocks when that has drawn any number of tokens: the older prompt's length and the
     * pool's size say when. The newer prompt fills its blocks, so that its first token takes the spare one of admission.
     */
    @Test
    void preemptionAfterAnyTokenChangesNothing() {
        int[] ids = new Random(4).ints(64, 10, 1000).toArray();
        Request newer = request("newer", Arrays.copyOfRange(ids, 30, 62), NUM_TOKENS_OF_VICTIM);
        Set<Integer> preemptedAfter = new TreeSet<>();
        try (InferenceEngine roomy = open(Dtype.AUTO, 1, 2048, ROOMY_BYTES, false)) {
            long bytesPerBlock = ROOMY_BYTES / roomy.stats().numBlocks();
            for (int numBlocks = 6; numBlocks <= 9; numBlocks++) {
                try (InferenceEngine tight = open(Dtype.AUTO, 4, 256, numBlocks * bytesPerBlock, false)) {
                    for (int offset = 0; offset < 16; offset++) {
                        Request older = request("older", Arrays.copyOf(ids, 33 + offset), 47 - offset);
                        EngineHarness alone = new EngineHarness(roomy, new LinkedHashMap<>());
                        alone.submit(older);
                        alone.submit(newer);
                        alone.runToEnd(1000);
                        EngineHarness pressed = new EngineHarness(tight, new LinkedHashMap<>());
                        pressed.submit(older);
                        pressed.submit(newer);
                        notePreemptions(pressed, preemptedAfter);
                        assertEquals(
                                describe(alone.ledger),
                                describe(pressed.ledger),
                                numBlocks + " blocks, offset " + offset);
                    }
                }
            }
        }
        for (int numTokens = 1; numTokens < NUM_TOKENS_OF_VICTIM - 1; numTokens++) {
            assertTrue(preemptedAfter.contains(numTokens), "preempted after " + preemptedAfter);
        }
    }

    /** Runs to the end; notes how many tokens the newer request had when it was preempted. */
    private static void notePreemptions(EngineHarness harness, Set<Integer> preemptedAfter) {
        long numPreemptions = harness.engine.stats().numPreemptions();
        while (harness.step()) {
            if (harness.engine.stats().numPreemptions() > numPreemptions) {
                numPreemptions = harness.engine.stats().numPreemptions();
                preemptedAfter.add(
                        harness.ledger.get("newer").sample(0).tokenIds.size());
            }
        }
    }

    private static Request request(String id, int[] prompt, int maxTokens) {
        SamplingParams params = SamplingParams.builder()
                .seed(9)
                .maxTokens(maxTokens)
                .ignoreEos(true)
                .numLogprobs(2)
                .build();
        return new Request(id, prompt, params);
    }

    private static Map<String, String> describe(Map<String, Entry> ledger) {
        Map<String, String> described = new TreeMap<>();
        ledger.forEach((id, entry) -> {
            assertNull(entry.failure);
            entry.samples.forEach((place, sample) ->
                    described.put(id + "#" + place, sample + " " + sample.logprobs + " " + sample.finished.text()));
            described.put(id + " prompt", String.valueOf(entry.promptScores));
        });
        return described;
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
