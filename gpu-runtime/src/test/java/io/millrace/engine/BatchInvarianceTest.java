package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.engine.EngineHarness.Entry;
import io.millrace.engine.EngineHarness.Sample;
import io.millrace.sampling.SamplingParams;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.PromptLookup;
import io.millrace.speculation.Proposer;
import io.millrace.speculation.SpeculationMethod;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Whatever runs beside it, however it is chunked, cached, forked, preempted, cancelled around or restored: a sample's tokens
 * are those of the sample run alone.
 */
class BatchInvarianceTest {
    private static final int NUM_WALKS = 150;

    private long numPreemptions;
    private long numHitTokens;
    private long numProposedTokens;
    private long numAcceptedTokens;

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6})
    void randomMixedLoadsEqualRequestsRunAlone(long firstSeed) {
        walks(firstSeed, false);
        assertEquals(0, numProposedTokens);
    }

    /** Proposals by an erring draft or by lookup, refused, accepted, cut by stops: nothing of it shows. */
    @ParameterizedTest
    @ValueSource(longs = {7, 8, 9, 10, 11, 12})
    void randomMixedLoadsWithSpeculationEqualRequestsRunAlone(long firstSeed) {
        walks(firstSeed, true);
        assertTrue(numAcceptedTokens > 5_000, "accepted: " + numAcceptedTokens);
        assertTrue(numProposedTokens - numAcceptedTokens > 5_000, "refused: " + numProposedTokens);
    }

    private void walks(long firstSeed, boolean speculating) {
        for (long seed = firstSeed * 10_000; seed < firstSeed * 10_000 + NUM_WALKS; seed++) {
            try {
                walk(seed, speculating);
            } catch (RuntimeException | Error e) {
                throw new AssertionError("seed " + seed + ": " + e.getMessage(), e);
            }
        }
        assertTrue(numPreemptions > 100, "preemptions: " + numPreemptions);
        assertTrue(numHitTokens > 1000, "cached tokens: " + numHitTokens);
    }

    private void walk(long seed, boolean speculating) {
        Random random = new Random(seed);
        List<Request> requests = requests(random, 4 + random.nextInt(16));
        int blockSize = random.nextBoolean() ? 16 : 1 + random.nextInt(8);
        int mostTokens = requests.stream()
                .mapToInt(r -> r.promptTokenIds().length + r.sampling().maxTokens())
                .max()
                .orElseThrow();
        int numBlocks = (mostTokens + blockSize - 1) / blockSize + random.nextInt(1 + random.nextInt(60));
        EngineConfig config = randomConfig(random, blockSize);
        List<Request> waiting = new ArrayList<>(requests);
        List<String> cancelled = new ArrayList<>();
        EngineHarness harness = harness(config, numBlocks, new LinkedHashMap<>(), speculating ? random : null);
        try {
            while (!waiting.isEmpty()) {
                for (int i = random.nextInt(4); i > 0 && !waiting.isEmpty(); i--) {
                    harness.submit(waiting.remove(0));
                }
                for (int i = random.nextInt(6); i > 0; i--) {
                    harness.step();
                }
                if (random.nextInt(8) == 0) {
                    String id = requests.get(random.nextInt(requests.size())).id();
                    cancelled.add(id);
                    harness.engine.cancel(id);
                    harness.step();
                }
                if (random.nextInt(10) == 0) { // a restore, with other limits
                    count(harness);
                    Map<String, Entry> ledger = harness.ledger;
                    config = randomConfig(random, blockSize);
                    harness = harness(config, numBlocks, ledger, speculating ? random : null);
                    harness.resume();
                }
            }
            harness.runToEnd(200_000);
            count(harness);
            for (Request request : requests) {
                verify(harness.ledger.get(request.id()), alone(request), cancelled.contains(request.id()));
            }
        } finally {
            harness.close();
        }
    }

    /** An engine; with speculation of a random kind if there is a random. */
    private static EngineHarness harness(
            EngineConfig config, int numBlocks, Map<String, Entry> ledger, Random speculation) {
        if (speculation == null) {
            return new EngineHarness(config, EngineHarness.backend(config, numBlocks), ledger);
        }
        SpeculativeConfig speculative = new SpeculativeConfig(
                SpeculationMethod.NGRAM,
                1 + speculation.nextInt(7),
                false, // going by the clock, a walk could not be repeated
                1 + speculation.nextInt(3),
                1,
                "",
                AcceptanceRule.COUPLED);
        int numDraftBlocks = 1 + speculation.nextInt(2 * numBlocks);
        Proposer proposer = speculation.nextInt(4) == 0
                ? new PromptLookup(1, speculative.promptLookupMax(), AcceptanceRule.COUPLED)
                : EngineHarness.draft(config, numDraftBlocks, speculation.nextInt(5) / 4.0);
        return new EngineHarness(
                config.withSpeculative(speculative), EngineHarness.backend(config, numBlocks), proposer, ledger);
    }

    private void count(EngineHarness harness) {
        numProposedTokens += harness.engine.stats().speculation().numProposedTokens();
        numAcceptedTokens += harness.engine.stats().speculation().numAcceptedTokens();
        numPreemptions += harness.engine.stats().numPreemptions();
        numHitTokens += harness.engine.stats().prefixCacheHitTokens();
        harness.close();
    }

    private static EngineConfig randomConfig(Random random, int blockSize) {
        int[] budgets = {1, 3, 16, 17, 64, 200, 4096};
        return EngineHarness.config(
                1 + random.nextInt(12), budgets[random.nextInt(budgets.length)], random.nextInt(3) > 0, blockSize);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void restoringAfterEveryStepChangesNothing(boolean speculating) {
        Random speculation = speculating ? new Random(12) : null;
        List<Request> requests = requests(new Random(11), 7);
        EngineConfig config = EngineHarness.config(6, 40, true, 16);
        int numBlocks = 40;
        int numSteps = 0;
        for (int stop = 0; stop <= numSteps; stop++) {
            EngineHarness first = harness(config, numBlocks, new LinkedHashMap<>(), speculation);
            requests.forEach(first::submit);
            while ((stop == 0 || first.numSteps < stop) && first.step()) {}
            if (stop == 0) {
                numSteps = first.numSteps;
            }
            first.close();
            try (EngineHarness second = harness(config, numBlocks, first.ledger, speculation)) {
                second.resume();
                second.runToEnd(10_000);
                for (Request request : requests) {
                    verify(second.ledger.get(request.id()), alone(request), false);
                }
            }
        }
        assertTrue(numSteps > 30, "steps: " + numSteps);
    }

    private static void verify(Entry actual, Map<Integer, Sample> expected, boolean cancelled) {
        assertNotNull(actual, "the request was submitted");
        assertNull(actual.failure);
        String id = actual.request.id();
        expected.forEach((place, sample) -> {
            Sample got = actual.samples.get(place);
            if (cancelled && got.finished.reason() == FinishReason.ABORT) {
                assertEquals(sample.tokenIds.subList(0, got.tokenIds.size()), got.tokenIds, id);
                assertEquals(sample.logprobs.subList(0, got.logprobs.size()), got.logprobs, id);
            } else {
                assertEquals(sample.toString(), got.toString(), id + "#" + place);
                assertEquals(sample.logprobs, got.logprobs, id + "#" + place);
            }
        });
        assertEquals(expected.size(), actual.samples.size());
        if (actual.request.sampling().numPromptLogprobs() >= 0 && !cancelled) {
            assertEquals(promptScoresAlone(actual.request), actual.promptScores, id);
        }
    }

    /** Every sample as a request of its own, one after the other, in an engine with room for all. */
    private static Map<Integer, Sample> alone(Request request) {
        EngineConfig config = EngineHarness.config(1, 4096, false, 16);
        Map<Integer, Sample> samples = new LinkedHashMap<>();
        try (EngineHarness harness = new EngineHarness(config, 64)) {
            for (int i = 0; i < request.sampling().n(); i++) {
                SamplingParams single = request.sampling().toBuilder()
                        .n(1)
                        .sampleIndex(request.sampling().sampleIndex() + i)
                        .numPromptLogprobs(-1)
                        .build();
                harness.submit(new Request(request.id() + "#" + i, request.promptTokenIds(), single));
                harness.runToEnd(10_000);
                samples.put(i, harness.ledger.get(request.id() + "#" + i).sample(0));
            }
        }
        return samples;
    }

    private static String promptScoresAlone(Request request) {
        EngineConfig config = EngineHarness.config(1, 4096, false, 16);
        try (EngineHarness harness = new EngineHarness(config, 64)) {
            SamplingParams single =
                    request.sampling().toBuilder().n(1).maxTokens(1).build();
            harness.submit(new Request(request.id(), request.promptTokenIds(), single));
            harness.runToEnd(10);
            String scores = harness.ledger.get(request.id()).promptScores;
            assertNotNull(scores);
            return scores;
        }
    }

    private static List<Request> requests(Random random, int count) {
        int[][] stems = new int[3][];
        for (int i = 0; i < stems.length; i++) {
            stems[i] = random.ints(random.nextInt(90), 10, 600).toArray();
        }
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int[] stem = stems[random.nextInt(stems.length)];
            int[] tail = random.ints(1 + random.nextInt(1 + random.nextInt(60)), 10, 13)
                    .toArray();
            int[] prompt = new int[stem.length + tail.length];
            System.arraycopy(stem, 0, prompt, 0, stem.length);
            System.arraycopy(tail, 0, prompt, stem.length, tail.length);
            int maxTokens = 1 + random.nextInt(1 + random.nextInt(70));
            SamplingParams params = SamplingParams.builder()
                    .n(1 + random.nextInt(1 + random.nextInt(8)))
                    .maxTokens(maxTokens)
                    .minTokens(random.nextInt(3) == 0 ? random.nextInt(maxTokens + 1) : 0)
                    .seed(random.nextInt(3))
                    .sampleIndex(random.nextInt(2) * 5)
                    .ignoreEos(random.nextBoolean())
                    .stopTokenIds(random.nextInt(3) == 0 ? List.of(50, 51, 52, 53, 54, 55, 56, 57, 58, 59) : List.of())
                    .numLogprobs(random.nextInt(3) - 1)
                    .numPromptLogprobs(random.nextInt(4) == 0 ? random.nextInt(3) : -1)
                    .build();
            requests.add(new Request(
                    "r" + i,
                    prompt,
                    params,
                    random.nextInt(3) - 1,
                    random.nextInt(4) == 0 ? "salt" : "",
                    List.of(),
                    params.numPromptLogprobs() >= 0));
        }
        return requests;
    }
}
