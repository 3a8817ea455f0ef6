package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.KvFormat;
import io.millrace.prefix.InMemoryPrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.prefix.TierStats;
import io.millrace.sampling.SamplingParams;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Whatever the store does and whenever it does it, outputs are those of an engine without it. */
class TierRandomWalkTest {
    private static final int CHUNK = 32;
    private static final TierConfig TIER = new TierConfig(KvFormat.AS_COMPUTED, CHUNK, true, 64 << 10, 500);

    /**
     * A walk.
     *
     * @param faults share of loads that go wrong
     * @param isPressed whether many sequences grow far beyond their prompts in a pool for two, so that most are preempted
     */
    private record Walk(long seed, TierConfig tier, double faults, boolean isPressed) {
        Walk(long seed, TierConfig tier, double faults) {
            this(seed, tier, faults, false);
        }
    }

    private static EngineConfig config(Random random, Walk walk) {
        int blockSize = List.of(4, 8, 16).get(random.nextInt(3));
        int minNumSeqs = walk.isPressed() ? 6 : 1;
        return EngineHarness.config(
                        minNumSeqs + random.nextInt(12), 8 + random.nextInt(200), random.nextInt(4) > 0, blockSize)
                .withTier(walk.tier());
    }

    /** Requests over a few documents, so that prefixes come again; some continue what an earlier one might have said. */
    private static List<Request> requests(Random random, int count, boolean isPressed) {
        List<int[]> documents = new ArrayList<>();
        for (int d = 0; d < 4; d++) {
            documents.add(tokens(random, 40 + random.nextInt(isPressed ? 100 : 400)));
        }
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int[] document = documents.get(random.nextInt(documents.size()));
            int kept = random.nextInt(3) == 0 ? 1 + random.nextInt(document.length) : document.length;
            int[] question = tokens(random, random.nextInt(40));
            int[] prompt = new int[kept + question.length];
            System.arraycopy(document, 0, prompt, 0, kept);
            System.arraycopy(question, 0, prompt, kept, question.length);
            SamplingParams params = SamplingParams.builder()
                    .maxTokens(isPressed ? 100 + random.nextInt(200) : 1 + random.nextInt(60))
                    .n(random.nextInt(4) == 0 ? 1 + random.nextInt(4) : 1)
                    .seed(random.nextInt(5))
                    .numPromptLogprobs(random.nextInt(12) == 0 ? 1 : -1)
                    .build();
            requests.add(new Request(
                    "r" + i,
                    prompt,
                    params,
                    random.nextInt(3),
                    random.nextInt(8) == 0 ? "salt" : "",
                    List.of(),
                    params.numPromptLogprobs() >= 0,
                    i));
        }
        return requests;
    }

    private static int[] tokens(Random random, int count) {
        return random.ints(count, 10, 600).toArray();
    }

    private static Map<String, String> outputs(EngineHarness harness) {
        Map<String, String> outputs = new TreeMap<>();
        harness.ledger.forEach((id, entry) -> outputs.put(id, entry.samples + " " + entry.promptScores));
        return outputs;
    }

    /** The same requests one after another in an engine that has no store. */
    private static Map<String, String> expected(List<Request> requests, EngineConfig config) {
        EngineConfig plain = config.tier().format().isLossy() ? config : config.withTier(null);
        try (EngineHarness harness = new EngineHarness(plain, 2000)) {
            for (Request request : requests) {
                harness.submit(request);
                harness.runToEnd(100_000);
            }
            return outputs(harness);
        }
    }

    private static TierStats walk(Walk walk) {
        long seed = walk.seed();
        double faults = walk.faults();
        Random random = new Random(seed);
        EngineConfig config = config(random, walk);
        List<Request> requests = requests(random, 40, walk.isPressed());
        Map<String, String> expected = expected(requests, config);
        int longest = requests.stream()
                .mapToInt(r -> r.promptTokenIds().length + r.sampling().maxTokens())
                .max()
                .orElseThrow();
        int numBlocks = (longest / config.blockSize() + 2) * (walk.isPressed() ? 2 : 1 + random.nextInt(6));
        TierHarness.Clock clock = new TierHarness.Clock();
        InMemoryPrefixStore store =
                new InMemoryPrefixStore(clock, seed).withFaults(faults).withMaxLoadsInFlight(1 + random.nextInt(4));
        try (TierHarness tiered = new TierHarness(config, numBlocks, clock, store)) {
            tiered.nanosPerPosition = random.nextInt(3000);
            int next = 0;
            int numSteps = 0;
            while (true) {
                if (random.nextInt(walk.isPressed() ? 50 : 10) == 0) {
                    store.withTimes(random.nextInt(5_000_000), (long) Math.pow(10, 4 + 5 * random.nextDouble()));
                }
                if (faults > 0 && random.nextInt(100) == 0) {
                    store.forget(random.nextDouble());
                }
                store.setRefusing(faults > 0 && random.nextInt(4) == 0);
                if (next < requests.size() && random.nextInt(6) == 0) {
                    tiered.harness.submit(requests.get(next++));
                }
                boolean more = tiered.step();
                assertTrue(numSteps++ < 200_000, "no end");
                if (!more && next == requests.size()) {
                    break;
                }
                if (!more) {
                    tiered.harness.submit(requests.get(next++));
                }
            }
            tiered.harness.requireAllDone();
            assertEquals(expected, outputs(tiered.harness), "seed " + seed);
            assertEquals(0, tiered.engine.stats().numUsedBlocks());
            return tiered.engine.stats().tier();
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
    void outputsAreThoseWithoutAStore(long seed) {
        walk(new Walk(seed, TIER, 0));
    }

    @ParameterizedTest
    @ValueSource(longs = {21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32})
    void outputsAreThoseWithoutAStoreWhateverGoesWrong(long seed) {
        walk(new Walk(seed, TIER, 0.2));
    }

    @ParameterizedTest
    @ValueSource(longs = {41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52})
    void roundedKvIsTheSameWhateverIsLoaded(long seed) {
        KvFormat format = seed % 2 == 0 ? KvFormat.INT8 : KvFormat.INT4;
        walk(new Walk(seed, new TierConfig(format, CHUNK, true, 64 << 10, 500), 0.1));
    }

    @Test
    void walksLoadAndCompute() {
        long loaded = 0;
        long computed = 0;
        long missed = 0;
        for (long seed = 61; seed < 73; seed++) {
            TierStats stats = walk(new Walk(seed, TIER, seed % 2 == 0 ? 0.1 : 0));
            loaded += stats.numLoadedTokens();
            computed += stats.numComputedTokens();
            missed += stats.numMissedTokens().values().stream()
                    .mapToLong(Long::longValue)
                    .sum();
        }
        System.out.println("loaded " + loaded + ", computed beside " + computed + ", missed " + missed);
        assertTrue(loaded > 1000 && computed > 1000 && missed > 1000, "a walk that loads nothing proves nothing");
    }

    @Test
    void preemptedSequencesComeBackInAllWays() {
        Map<TierStats.Restore, Long> restores = new EnumMap<>(TierStats.Restore.class);
        for (long seed = 81; seed < 93; seed++) {
            TierStats stats = walk(new Walk(seed, TIER, seed % 2 == 0 ? 0.1 : 0, true));
            stats.numRestores().forEach((kind, count) -> restores.merge(kind, count, Long::sum));
        }
        System.out.println("restores " + restores);
        for (TierStats.Restore kind : TierStats.Restore.values()) {
            assertTrue(restores.getOrDefault(kind, 0L) >= 5, kind + " in too few of " + restores);
        }
    }
}
