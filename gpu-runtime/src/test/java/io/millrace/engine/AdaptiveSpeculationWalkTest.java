package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.engine.EngineHarness.Entry;
import io.millrace.engine.EngineHarness.Sample;
import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.PromptLookup;
import io.millrace.speculation.Proposer;
import io.millrace.speculation.SpeculationMethod;
import io.millrace.speculation.SpeculationStats;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Speculation that turns itself on and off while batches grow and shrink, on a clock of the test's own: what steps, verifying and
 * guessing cost, and how good guesses are, changes again and again. Every sample has the tokens and log probabilities of plain
 * steps.
 */
class AdaptiveSpeculationWalkTest {
    private static final int MAX_NUM_SEQS = 48;
    private static final int NUM_WALKS = 16;
    private static final int NUM_REQUESTS = 160;
    private static final int MIN_STEPS_PER_REGIME = 40;

    private long nanos;
    private int numTurns;
    private SpeculationStats total = SpeculationStats.NONE;

    /** What things cost and how good guesses are, for a while. */
    private record Regime(long stepNanos, long tokenNanos, long guessNanos, double accuracy) {
        static Regime random(Random random) {
            long stepNanos = 200_000 + random.nextInt(800_000);
            long tokenNanos = random.nextBoolean() ? 500 + random.nextInt(2_000) : 10_000 + random.nextInt(90_000);
            long guessNanos = random.nextBoolean() ? random.nextInt(500) : 5_000 + random.nextInt(50_000);
            double[] accuracies = {0, 0.3, 0.9, 1};
            return new Regime(stepNanos, tokenNanos, guessNanos, accuracies[random.nextInt(accuracies.length)]);
        }
    }

    /** Knows what plain steps drew, says it with errors, and takes its time; or lets another one guess. */
    private final class Guesses implements Proposer {
        private final Map<String, Entry> plain;
        private final Proposer other; // null for none
        private final boolean knowsChances;
        private final Random random;
        Regime regime;

        Guesses(Map<String, Entry> plain, Proposer other, boolean knowsChances, Random random) {
            this.plain = plain;
            this.other = other;
            this.knowsChances = knowsChances;
            this.random = random;
        }

        @Override
        public void propose(List<Sequence> sequences, int[] limits, double minChance) {
            nanos += regime.guessNanos * sequences.size();
            if (other != null) {
                other.propose(sequences, limits, minChance);
                return;
            }
            for (int i = 0; i < sequences.size(); i++) {
                Sequence sequence = sequences.get(i);
                List<Integer> drawn = plain.get(sequence.group().id()).sample(sequence.sample()).tokenIds;
                int from = sequence.numOutputTokens();
                for (int j = from; j < Math.min(drawn.size(), from + limits[i]) && random.nextInt(8) > 0; j++) {
                    int tokenId = random.nextDouble() < regime.accuracy ? drawn.get(j) : 10 + random.nextInt(500);
                    sequence.propose(tokenId, null);
                }
            }
        }

        @Override
        public boolean knowsChances() {
            return knowsChances;
        }

        @Override
        public void observeVerified(Sequence sequence, int numProposed, int numAccepted) {
            if (other != null) {
                other.observeVerified(sequence, numProposed, numAccepted);
            }
        }

        @Override
        public long lastDraftStepNanos() {
            return regime.guessNanos;
        }

        @Override
        public void forget(Sequence sequence) {
            if (other != null) {
                other.forget(sequence);
            }
        }

        @Override
        public void close() {}
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4})
    void guessesOfKnownChanceThatComeAndGoChangeNothing(long firstSeed) {
        for (long seed = firstSeed * 100; seed < firstSeed * 100 + NUM_WALKS; seed++) {
            walk(seed, true, null);
        }
        assertTurned();
    }

    @ParameterizedTest
    @ValueSource(longs = {5, 6})
    void draftsThatComeAndGoChangeNothing(long firstSeed) {
        for (long seed = firstSeed * 100; seed < firstSeed * 100 + NUM_WALKS; seed++) {
            walk(seed, false, null);
        }
        assertTurned();
    }

    @ParameterizedTest
    @ValueSource(longs = {7, 8})
    void lookupsThatComeAndGoChangeNothing(long firstSeed) {
        for (long seed = firstSeed * 100; seed < firstSeed * 100 + NUM_WALKS; seed++) {
            walk(seed, true, new PromptLookup(1, 4, AcceptanceRule.COUPLED));
        }
        assertTrue(total.numProposedTokens() > 500 && numTurns > 50, total + ", turns: " + numTurns);
    }

    private void assertTurned() {
        assertTrue(numTurns > 100, "turned on or off " + numTurns + " times");
        assertTrue(total.numAcceptedTokens() > 1000, "accepted: " + total);
        assertTrue(total.numProposedTokens() - total.numAcceptedTokens() > 1000, "refused: " + total);
    }

    private void walk(long seed, boolean knowsChances, Proposer other) {
        Random random = new Random(seed);
        List<Request> requests = requests(random);
        EngineConfig config = EngineHarness.config(MAX_NUM_SEQS, 256, true, 16);
        int numBlocks = 40 + random.nextInt(400);
        Map<String, Entry> plain;
        try (EngineHarness harness = new EngineHarness(config, 1000)) {
            requests.forEach(harness::submit);
            harness.runToEnd(100_000);
            plain = harness.ledger;
        }
        Guesses guesses = new Guesses(plain, other, knowsChances, random);
        EngineConfig speculating = config.withSpeculative(new SpeculativeConfig(
                SpeculationMethod.NGRAM, 1 + random.nextInt(6), true, 4, 1, "", AcceptanceRule.COUPLED));
        TimedBackend backend = new TimedBackend(
                EngineHarness.backend(config, numBlocks),
                input -> nanos += guesses.regime.stepNanos + guesses.regime.tokenNanos * input.numTokens());
        InferenceEngine engine = new InferenceEngine(
                speculating, EngineHarness.facts(), Optional.empty(), backend, Optional.of(guesses), null, () -> nanos);
        try (EngineHarness harness = new EngineHarness(engine, new LinkedHashMap<>())) {
            run(random, harness, guesses, new ArrayList<>(requests));
            requests.forEach(request -> verify(seed, plain.get(request.id()), harness.ledger.get(request.id())));
            SpeculationStats stats = engine.stats().speculation();
            total = new SpeculationStats(
                    total.numProposedTokens() + stats.numProposedTokens(),
                    total.numAcceptedTokens() + stats.numAcceptedTokens(),
                    total.numStepsOff() + stats.numStepsOff(),
                    stats.isOff());
        }
    }

    /** Requests come one by one or in crowds; a regime lasts for some steps. */
    private void run(Random random, EngineHarness harness, Guesses guesses, List<Request> waiting) {
        boolean wasOff = false;
        guesses.regime = Regime.random(random);
        int stepsLeft = MIN_STEPS_PER_REGIME;
        boolean busy = true;
        while (busy || !waiting.isEmpty()) {
            if (!busy || random.nextInt(20) == 0) {
                int count = random.nextBoolean() ? 1 : 1 + random.nextInt(MAX_NUM_SEQS);
                for (int i = 0; i < count && !waiting.isEmpty(); i++) {
                    harness.submit(waiting.remove(0));
                }
            }
            if (--stepsLeft == 0) {
                guesses.regime = Regime.random(random);
                stepsLeft = MIN_STEPS_PER_REGIME + random.nextInt(200);
            }
            busy = harness.step();
            boolean isOff = harness.engine.stats().speculation().isOff();
            numTurns += isOff == wasOff ? 0 : 1;
            wasOff = isOff;
        }
        harness.requireAllDone();
    }

    private static void verify(long seed, Entry expected, Entry actual) {
        assertNull(actual.failure, "seed " + seed);
        assertEquals(expected.samples.size(), actual.samples.size(), "seed " + seed);
        expected.samples.forEach((place, sample) -> {
            Sample got = actual.samples.get(place);
            String what = "seed " + seed + ", " + actual.request.id() + "#" + place;
            assertEquals(sample.toString(), got.toString(), what);
            assertEquals(sample.logprobs, got.logprobs, what);
        });
    }

    private static List<Request> requests(Random random) {
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < NUM_REQUESTS; i++) {
            int[] prompt = random.ints(4 + random.nextInt(60), 10, 10 + 2 + random.nextInt(20))
                    .toArray();
            SamplingParams params = SamplingParams.builder()
                    .n(random.nextInt(6) == 0 ? 3 : 1)
                    .maxTokens(1 + random.nextInt(120))
                    .seed(i)
                    .ignoreEos(random.nextInt(3) > 0)
                    .stopTokenIds(random.nextInt(4) == 0 ? List.of(50, 51, 52, 53, 54, 55) : List.of())
                    .numLogprobs(random.nextInt(3) - 1)
                    .build();
            requests.add(new Request("r" + i, prompt, params));
        }
        return requests;
    }
}
