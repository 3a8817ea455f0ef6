package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.fake.FakeBackend;
import io.millrace.engine.EngineHarness.Entry;
import io.millrace.engine.EngineHarness.Sample;
import io.millrace.engine.Request.ResumedSample;
import io.millrace.engine.StepReport.RequestFailure;
import io.millrace.sampling.SamplingParams;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What the engine answers to single requests, and how it uses its memory. */
class EngineServingTest {
    private static int[] prompt(int count) {
        return IntStream.range(10, 10 + count).toArray();
    }

    private static SamplingParams.Builder params(int maxTokens) {
        return SamplingParams.builder().maxTokens(maxTokens).ignoreEos(true);
    }

    private static EngineHarness harness(int numBlocks) {
        return new EngineHarness(EngineHarness.config(8, 64, true, 16), numBlocks);
    }

    private static RequestFailure failure(EngineHarness harness, Request request) {
        harness.submit(request);
        harness.runToEnd(5);
        RequestFailure failure = harness.ledger.get(request.id()).failure;
        assertTrue(!failure.message().isBlank() && !failure.remedy().isBlank());
        return failure;
    }

    @Test
    void requestsThatCannotBeServedComeBackAsFailures() {
        try (EngineHarness harness = harness(10)) {
            assertEquals(160, harness.engine.maxSequenceTokens());
            assertEquals(4096, harness.engine.maxModelLen());
            SamplingParams plain = params(10).build();
            assertEquals(
                    "prompt_too_long",
                    failure(harness, new Request("a", new int[4096], plain)).code());
            assertEquals(
                    "kv_cache_too_small",
                    failure(harness, new Request("b", prompt(151), plain)).code());
            assertEquals(
                    "token_id_out_of_vocabulary",
                    failure(harness, new Request("c", new int[] {1, 1000}, plain))
                            .code());
            assertEquals(
                    "token_id_out_of_vocabulary",
                    failure(harness, new Request("d", new int[] {-1}, plain)).code());
            assertEquals(
                    "token_id_out_of_vocabulary",
                    failure(
                                    harness,
                                    new Request(
                                            "e",
                                            prompt(3),
                                            params(3)
                                                    .stopTokenIds(List.of(1000))
                                                    .build()))
                            .code());
            assertEquals(
                    "token_id_out_of_vocabulary",
                    failure(
                                    harness,
                                    new Request(
                                            "f",
                                            prompt(3),
                                            params(3)
                                                    .logitBias(Map.of(1000, 1f))
                                                    .build()))
                            .code());
            assertEquals(
                    "stop_without_tokenizer",
                    failure(
                                    harness,
                                    new Request(
                                            "g",
                                            prompt(3),
                                            params(3).stop(List.of("x")).build()))
                            .code());
            for (ResumedSample resumed : List.of(
                    new ResumedSample(1, prompt(1), false),
                    new ResumedSample(-1, prompt(1), false),
                    new ResumedSample(0, prompt(11), false))) {
                assertEquals(
                        "invalid_resume",
                        failure(harness, new Request("h", prompt(3), plain, 0, "", List.of(resumed), false))
                                .code());
            }
            harness.submit(new Request("fits", prompt(150), plain));
            harness.runToEnd(100);
            assertEquals(10, harness.ledger.get("fits").sample(0).tokenIds.size());
        }
    }

    @Test
    void aSecondRequestOfTheSameIdFailsWhileTheFirstIsServed() {
        try (EngineHarness harness = harness(10)) {
            harness.engine.submit(new Request("a", prompt(3), params(3).build()));
            harness.engine.submit(new Request("a", prompt(3), params(3).build()));
            StepReport report = harness.engine.step();
            assertEquals("duplicate_request_id", report.failures().get(0).code());
            assertEquals(1, report.deltas().size());
        }
    }

    @Test
    void outputEndsAtTheContextLength() {
        EngineConfig config = new EngineConfig(
                "none",
                "fake",
                io.millrace.backend.Dtype.AUTO,
                50,
                8,
                64,
                1,
                true,
                16,
                0,
                io.millrace.sampling.LogprobsMode.RAW_LOGPROBS);
        try (EngineHarness harness =
                new EngineHarness(config, EngineHarness.backend(config, 10), new java.util.LinkedHashMap<>())) {
            assertEquals(50, harness.engine.maxSequenceTokens());
            harness.submit(new Request("a", prompt(40), params(1000).build()));
            harness.runToEnd(100);
            Sample sample = harness.ledger.get("a").sample(0);
            assertEquals(10, sample.tokenIds.size());
            assertEquals(FinishReason.LENGTH, sample.finished.reason());
            assertNull(sample.finished.text());
            assertEquals(
                    "prompt_too_long",
                    failure(harness, new Request("b", prompt(50), params(1).build()))
                            .code());
        }
    }

    @Test
    void endsAtEveryEosIdAndAtStopIdsButNotBeforeMinTokens() {
        int numStoppedByEos = 0;
        int numStoppedById = 0;
        try (EngineHarness harness = new EngineHarness(EngineHarness.config(64, 4096, true, 16), 4000)) {
            for (int i = 0; i < 200; i++) {
                SamplingParams params = SamplingParams.builder()
                        .seed(i)
                        .maxTokens(200)
                        .minTokens(i % 3 * 20)
                        .stopTokenIds(List.of(100, 101, 102, 103, 104, 105))
                        .build();
                harness.submit(new Request("r" + i, prompt(5), params));
            }
            harness.runToEnd(5000);
            for (Entry entry : harness.ledger.values()) {
                Sample sample = entry.sample(0);
                int last = sample.tokenIds.get(sample.tokenIds.size() - 1);
                boolean eos = last == 2 || last == 3;
                boolean stop = last >= 100 && last <= 105;
                if (sample.finished.reason() == FinishReason.STOP) {
                    assertTrue(eos || stop);
                    assertTrue(sample.tokenIds.size() > entry.request.sampling().minTokens());
                    assertEquals(stop ? last : -1, sample.finished.stopTokenId());
                    numStoppedByEos += eos ? 1 : 0;
                    numStoppedById += stop ? 1 : 0;
                } else {
                    assertEquals(200, sample.tokenIds.size());
                }
                assertTrue(sample.tokenIds.subList(0, sample.tokenIds.size() - 1).stream()
                        .noneMatch(id -> id == 2 || id == 3 || id >= 100 && id <= 105));
            }
        }
        assertTrue(numStoppedByEos > 50 && numStoppedById > 10, numStoppedByEos + " " + numStoppedById);
    }

    @Test
    void faultyRequestsFailAloneAndTheOthersGoOn() {
        List<Integer> expected;
        try (EngineHarness alone = harness(20)) {
            alone.submit(new Request("good", prompt(20), params(30).build()));
            alone.runToEnd(100);
            expected = alone.ledger.get("good").sample(0).tokenIds;
        }
        try (EngineHarness harness = harness(40)) {
            harness.submit(new Request("good", prompt(20), params(30).build()));
            harness.step();
            int[] poison = prompt(70);
            poison[66] = FakeBackend.FAULT_TOKEN_ID;
            harness.submit(new Request("bad", poison, params(5).n(3).build()));
            harness.submit(new Request(
                    "worse", new int[] {FakeBackend.FAULT_TOKEN_ID}, params(5).build()));
            harness.runToEnd(100);
            assertEquals("engine_fault", harness.ledger.get("bad").failure.code());
            assertEquals("engine_fault", harness.ledger.get("worse").failure.code());
            assertEquals(expected, harness.ledger.get("good").sample(0).tokenIds);
        }
        try (EngineHarness harness = harness(40)) { // nothing is left of the batch
            harness.submit(new Request(
                    "only", new int[] {FakeBackend.FAULT_TOKEN_ID}, params(5).build()));
            harness.runToEnd(100);
            assertEquals("engine_fault", harness.ledger.get("only").failure.code());
        }
    }

    @Test
    void aFaultNotTracedToASequenceComesOutOfTheStep() {
        try (EngineHarness harness = harness(40)) {
            harness.submit(new Request(
                    "crash", new int[] {FakeBackend.CRASH_TOKEN_ID}, params(5).build()));
            assertThrows(IllegalStateException.class, harness::step);
        }
    }

    @Test
    void aRequestAloneRunsItsSamplesInWaves() {
        try (EngineHarness harness = harness(12)) { // 40 samples of 100 tokens in 192 slots, 8 at a time
            harness.submit(new Request("a", prompt(50), params(50).n(40).build()));
            harness.runToEnd(10_000);
            assertEquals(40, harness.ledger.get("a").samples.size());
            assertTrue(
                    harness.ledger.get("a").samples.values().stream().allMatch(sample -> sample.tokenIds.size() == 50));
            assertTrue(harness.engine.stats().peakUsedBlocks() <= 12);
        }
    }

    @Test
    void cancelledSamplesEndWithAbortAndFreeTheirBlocks() {
        try (EngineHarness harness = harness(40)) {
            harness.submit(new Request("a", prompt(20), params(100).n(12).build()));
            harness.submit(new Request("b", prompt(20), params(5).build()));
            harness.step();
            harness.step();
            harness.engine.cancel("a");
            harness.engine.cancel("unknown");
            harness.runToEnd(20);
            Entry a = harness.ledger.get("a");
            assertEquals(12, a.samples.size());
            a.samples.values().forEach(sample -> assertEquals(FinishReason.ABORT, sample.finished.reason()));
            assertTrue(a.sample(0).tokenIds.size() == 2 && a.sample(11).tokenIds.isEmpty());
            assertEquals(
                    FinishReason.LENGTH,
                    harness.ledger.get("b").sample(0).finished.reason());
            harness.engine.submit(new Request("a", prompt(20), params(1).build()));
            assertEquals(1, harness.engine.step().deltas().size(), "its id is free again");
        }
    }

    @Test
    void cachedAndRestoredTokensAreCounted() {
        try (EngineHarness harness = harness(40)) {
            harness.submit(new Request("a", prompt(40), params(1).build()));
            harness.runToEnd(10);
            assertEquals(0, harness.ledger.get("a").sample(0).finished.numCachedTokens());
            harness.submit(new Request("b", prompt(40), params(1).n(2).build()));
            harness.runToEnd(10);
            assertEquals(32, harness.ledger.get("b").sample(0).finished.numCachedTokens());
            assertEquals(32, harness.ledger.get("b").sample(1).finished.numCachedTokens());
            harness.submit(new Request(
                    "c",
                    prompt(40),
                    params(9).build(),
                    0,
                    "salt",
                    List.of(new ResumedSample(0, prompt(4), false)),
                    false));
            harness.runToEnd(10);
            assertEquals(0, harness.ledger.get("c").sample(0).finished.numCachedTokens());
            EngineStats stats = harness.engine.stats();
            assertEquals(120, stats.prefixCacheQueryTokens());
            assertEquals(32, stats.prefixCacheHitTokens());
            assertEquals(40 + 8 + 40, stats.numPromptTokens());
            assertEquals(1 + 2 + 5, stats.numGeneratedTokens());
            assertEquals(4, stats.numRestoredTokens());
        }
    }

    @Test
    void restoredTokensThatHadEndedTheSampleEndItAgain() {
        try (EngineHarness harness = harness(40)) {
            SamplingParams params = SamplingParams.builder().n(3).maxTokens(3).build();
            harness.submit(new Request(
                    "a",
                    prompt(4),
                    params,
                    0,
                    "",
                    List.of(
                            new ResumedSample(0, new int[] {7, 8, 9}, false),
                            new ResumedSample(1, new int[] {7, 2}, false),
                            new ResumedSample(2, new int[] {7, 2}, true)),
                    false));
            StepReport report = harness.engine.step();
            assertEquals(2, report.deltas().size());
            assertEquals(FinishReason.LENGTH, report.deltas().get(0).finished().reason());
            assertEquals(FinishReason.STOP, report.deltas().get(1).finished().reason());
            assertNull(harness.engine.step());
        }
    }

    /** Pages against contiguous reservation; the design asks for 96 %. */
    @Test
    void usedShareOfAllocatedKvIsAtLeast96PercentInAMixedLoad() {
        Random random = new Random(5);
        long usedSlots = 0;
        long allocatedSlots = 0;
        long heldSequences = 0;
        try (EngineHarness harness = new EngineHarness(EngineHarness.config(96, 1024, true, 16), 2400)) {
            List<Request> requests = new ArrayList<>();
            long numTokens = 0;
            for (int i = 0; i < 300; i++) {
                int numPromptTokens = (int) Math.min(1500, Math.exp(5 + 0.8 * random.nextGaussian()));
                int maxTokens = 20 + random.nextInt(400);
                requests.add(new Request(
                        "r" + i,
                        random.ints(Math.max(1, numPromptTokens), 10, 600).toArray(),
                        params(maxTokens).seed(i).build()));
                numTokens += numPromptTokens + maxTokens;
            }
            assertTrue(numTokens / 300 >= 256, "mean length " + numTokens / 300);
            requests.forEach(harness::submit);
            while (harness.step()) {
                EngineStats stats = harness.engine.stats();
                usedSlots += stats.numUsedSlots();
                allocatedSlots += 16L * stats.numUsedBlocks();
                heldSequences += stats.numRunningSequences();
            }
            assertEquals(
                    0, harness.ledger.values().stream().filter(e -> !e.isDone()).count());
        }
        double share = (double) usedSlots / allocatedSlots;
        double contiguous = (double) usedSlots / (2048.0 * heldSequences);
        System.out.printf(
                "used share of allocated KV: %.2f %%; with 2,048 slots reserved a sequence: %.1f %%%n",
                100 * share, 100 * contiguous);
        assertTrue(share >= 0.96, "share " + share);
        assertTrue(contiguous < 0.38, "contiguous " + contiguous);
    }
}
