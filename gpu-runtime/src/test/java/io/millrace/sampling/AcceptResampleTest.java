package io.millrace.sampling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** The rule of accepting and resampling: the target's distribution, whatever the draft's is. */
class AcceptResampleTest {
    private static final int[] NO_TOKENS = {};
    private static final int NUM_TRIALS = 60_000;

    /** A target and a draft; every trial is an output position, so it has noise of its own. */
    private static final class Pair {
        final float[] target;
        final float[] draft;
        final SamplingParams params;
        final Sampler sampler;
        final float[] scratch;

        Pair(float[] target, float[] draft, SamplingParams params) {
            this.target = target;
            this.draft = draft;
            this.params = params;
            sampler = new Sampler(target.length, LogprobsMode.PROCESSED_LOGPROBS);
            scratch = new float[target.length];
        }

        static Pair of(double[] p, double[] q) {
            return new Pair(
                    logits(p), logits(q), SamplingParams.builder().seed(7).build());
        }

        Proposal propose(int trial) {
            float[] distribution = new float[draft.length];
            int tokenId = draw(draft, row(trial, null, distribution));
            return new Proposal(tokenId, distribution);
        }

        int verify(int trial, Proposal proposal) {
            return draw(target, row(trial, proposal, null));
        }

        double[] targetDistribution() {
            double[] probabilities = new double[target.length];
            System.arraycopy(target, 0, scratch, 0, target.length);
            sampler.distribution(scratch, 0, row(0, null, null), probabilities);
            return probabilities;
        }

        private int draw(float[] logits, RowSampling row) {
            System.arraycopy(logits, 0, scratch, 0, logits.length);
            return sampler.draw(scratch, 0, row);
        }

        private RowSampling row(int trial, Proposal proposal, float[] distribution) {
            return new RowSampling(params, 0, trial, NO_TOKENS, 0, 0, NO_TOKENS, proposal, distribution);
        }

        private static float[] logits(double[] probabilities) {
            float[] logits = new float[probabilities.length];
            for (int i = 0; i < logits.length; i++) {
                logits[i] = (float) Math.log(probabilities[i]);
            }
            return logits;
        }
    }

    @Test
    void twoTokensByHand() {
        Pair pair = Pair.of(new double[] {0.6, 0.4}, new double[] {0.9, 0.1});
        int[] proposed = new int[2];
        int[] accepted = new int[2];
        int[] drawn = new int[2];
        for (int trial = 0; trial < NUM_TRIALS; trial++) {
            Proposal proposal = pair.propose(trial);
            assertEquals(0.9f, proposal.distribution()[0], 1e-6f);
            int tokenId = pair.verify(trial, proposal);
            proposed[proposal.tokenId()]++;
            accepted[tokenId] += tokenId == proposal.tokenId() ? 1 : 0;
            drawn[tokenId]++;
        }
        assertEquals(0.9, (double) proposed[0] / NUM_TRIALS, 0.005);
        assertEquals(0.6 / 0.9, (double) accepted[0] / proposed[0], 0.01, "min(1, p / q)");
        assertEquals(proposed[1], accepted[1], "what the target likes better is always accepted");
        assertEquals(0.7, (double) (accepted[0] + accepted[1]) / NUM_TRIALS, 0.01, "sum of min(p, q)");
        assertEquals(0.6, (double) drawn[0] / NUM_TRIALS, 0.008);
    }

    static Stream<Arguments> settings() {
        return Stream.of(
                Arguments.of("plain", SamplingParams.builder().seed(1).build()),
                Arguments.of(
                        "temperature",
                        SamplingParams.builder().seed(2).temperature(0.6f).build()),
                Arguments.of("top-k", SamplingParams.builder().seed(3).topK(8).build()),
                Arguments.of(
                        "top-p", SamplingParams.builder().seed(4).topP(0.8f).build()),
                Arguments.of(
                        "all",
                        SamplingParams.builder()
                                .seed(5)
                                .temperature(1.3f)
                                .topK(12)
                                .topP(0.9f)
                                .minP(0.02f)
                                .build()));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("settings")
    void drawsAreDistributedAsTheTargetAlone(String name, SamplingParams params) {
        Random random = new Random(42);
        float[] target = gaussians(random, 40, 1.5f);
        float[] draft = gaussians(random, 40, 1.2f);
        for (int i = 0; i < draft.length; i++) {
            draft[i] = 0.6f * target[i] + 0.6f * draft[i];
        }
        Pair pair = new Pair(target, draft, params);
        double[] expected = pair.targetDistribution();
        assertFits(expected, counts(pair, false), name + " with a draft model");
        assertFits(expected, counts(pair, true), name + " with a certain draft");
    }

    private static int[] counts(Pair pair, boolean certain) {
        int[] counts = new int[pair.target.length];
        for (int trial = 0; trial < NUM_TRIALS; trial++) {
            counts[pair.verify(trial, certain ? new Proposal(trial % 7, null) : pair.propose(trial))]++;
        }
        return counts;
    }

    /** Pearson's chi-square; cells that expect little are taken together. The limit is exceeded once in 10,000 times. */
    private static void assertFits(double[] expected, int[] counts, String what) {
        double statistic = 0;
        int numCells = 0;
        double restExpected = 0;
        int restCount = 0;
        for (int i = 0; i < expected.length; i++) {
            double mean = expected[i] * NUM_TRIALS;
            if (mean >= 10) {
                statistic += (counts[i] - mean) * (counts[i] - mean) / mean;
                numCells++;
            } else {
                assertTrue(expected[i] > 0 || counts[i] == 0, what + ": a truncated token was drawn: " + i);
                restExpected += mean;
                restCount += counts[i];
            }
        }
        if (restExpected > 1) {
            statistic += (restCount - restExpected) * (restCount - restExpected) / restExpected;
            numCells++;
        }
        double freedom = numCells - 1;
        // Wilson and Hilferty's cube.
        double cube = Math.cbrt(statistic / freedom);
        double z = (cube - (1 - 2 / (9 * freedom))) / Math.sqrt(2 / (9 * freedom));
        assertTrue(z < 3.72, what + ": chi-square " + statistic + " at " + freedom + " degrees of freedom");
    }

    /** (1 - α^(γ+1)) / (1 - α). */
    @ParameterizedTest
    @CsvSource({"0.8, 4, 3.36", "0.6, 3, 2.176"})
    void tokensPerPass(double rate, int numDraftTokens, double expected) {
        double distance = 1 - rate;
        Pair pair = Pair.of(new double[] {0.5, 0.5}, new double[] {0.5 + distance, 0.5 - distance});
        int position = 0;
        int numPasses = 20_000;
        for (int pass = 0; pass < numPasses; pass++) {
            int numAccepted = 0;
            boolean goesOn = true;
            while (goesOn && numAccepted < numDraftTokens) {
                Proposal proposal = pair.propose(position);
                goesOn = pair.verify(position++, proposal) == proposal.tokenId();
                numAccepted += goesOn ? 1 : 0;
            }
            position += goesOn ? 1 : 0; // the bonus token
        }
        assertEquals(expected, (double) position / numPasses, 0.03);
    }

    /**
     * Both rules side by side, on random pairs: the rule of accepting and resampling accepts 1 - d, d the total variation
     * distance, which no rule exceeds; coupled draws agree in at least (1 - d) / (1 + d).
     */
    @Test
    void acceptanceOfBothRules() {
        Random random = new Random(3);
        for (float likeness : new float[] {0.3f, 0.7f, 0.95f}) {
            float[] target = gaussians(random, 30, 2);
            float[] draft = gaussians(random, 30, 2);
            for (int i = 0; i < draft.length; i++) {
                draft[i] = likeness * target[i] + (1 - likeness) * draft[i];
            }
            Pair pair = new Pair(target, draft, SamplingParams.builder().seed(9).build());
            double[] p = pair.targetDistribution();
            float[] q = pair.propose(0).distribution();
            double distance = 0;
            for (int i = 0; i < p.length; i++) {
                distance += Math.abs(p[i] - q[i]) / 2;
            }
            int numResampled = 0;
            int numCoupled = 0;
            for (int trial = 0; trial < NUM_TRIALS; trial++) {
                Proposal proposal = pair.propose(trial);
                numResampled += pair.verify(trial, proposal) == proposal.tokenId() ? 1 : 0;
                numCoupled += pair.verify(trial, null) == proposal.tokenId() ? 1 : 0;
            }
            double resampled = (double) numResampled / NUM_TRIALS;
            double coupled = (double) numCoupled / NUM_TRIALS;
            System.out.printf(
                    "distance %.3f: accept/resample accepts %.3f, coupled %.3f (at least %.3f)%n",
                    distance, resampled, coupled, (1 - distance) / (1 + distance));
            assertEquals(1 - distance, resampled, 0.01);
            assertTrue(coupled > (1 - distance) / (1 + distance) - 0.01, "coupled " + coupled);
            assertTrue(coupled < 1 - distance + 0.01, "coupled " + coupled);
        }
    }

    @Test
    void greedyRowsAcceptTheGreatestLogitAlone() {
        Pair pair = new Pair(
                new float[] {1, 3, 2},
                new float[] {3, 1, 2},
                SamplingParams.builder().temperature(0).build());
        Proposal proposal = pair.propose(0);
        assertEquals(0, proposal.tokenId());
        assertEquals(1, proposal.distribution()[0]);
        assertEquals(0, proposal.distribution()[1]);
        assertEquals(1, pair.verify(0, proposal));
    }

    private static float[] gaussians(Random random, int count, float scale) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = scale * (float) random.nextGaussian();
        }
        return values;
    }
}
