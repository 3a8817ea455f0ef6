package io.millrace.sampling;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.kernels.LogitKernels;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SamplerTest {
    private static final int[] NONE = {};

    @ParameterizedTest(name = "seed {0}")
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void followsTheNaiveModelOnARandomWalk(long seed) {
        Random random = new Random(seed);
        int[] sizes = {1, 2, 7, 33, 320, 1000, 3000, 6000};
        int vocabSize = sizes[random.nextInt(sizes.length)];
        Sampler sampler = new Sampler(vocabSize, LogprobsMode.RAW_LOGPROBS);
        Sampler plain = new Sampler(vocabSize, LogprobsMode.RAW_LOGPROBS, LogitKernels.scalar());
        for (int step = 0; step < 150; step++) {
            String where = "seed " + seed + ", step " + step + ", vocabulary " + vocabSize;
            float[] logits = randomLogits(random, vocabSize);
            RowSampling row = randomRow(random, vocabSize);
            double[] expected = NaiveSampler.distribution(logits, row);
            double[] actual = new double[vocabSize];
            sampler.distribution(logits.clone(), 0, row, actual);
            for (int id = 0; id < vocabSize; id++) {
                assertEquals(
                        expected[id] > 1e-30,
                        actual[id] > 1e-30,
                        where + ": support at id " + id + ", " + expected[id] + " against " + actual[id] + ", " + row);
                assertEquals(expected[id], actual[id], 1e-5 * expected[id] + 1e-9, where + ": id " + id);
            }
            int drawn = sampler.draw(logits.clone(), 0, row);
            assertEquals(drawn, plain.draw(logits.clone(), 0, row), where);
            double[] scores = NaiveSampler.scores(expected, row);
            double best = Arrays.stream(scores).min().getAsDouble();
            assertTrue(scores[drawn] <= best * 1.00001, where + ": drew " + drawn);
        }
    }

    /** Whoever asks for the distribution drawn from makes the sampler truncate before it draws. */
    @ParameterizedTest(name = "seed {0}")
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
    void drawingFirstGivesTheTokenOfTruncatingFirst(long seed) {
        Random random = new Random(seed);
        int[] sizes = {1, 2, 5, 33, 64, 320, 1000, 3001, 50_000};
        for (int size : sizes) {
            Sampler early = new Sampler(size, LogprobsMode.RAW_LOGPROBS);
            Sampler plain = new Sampler(size, LogprobsMode.RAW_LOGPROBS, LogitKernels.scalar());
            Sampler late = new Sampler(size, LogprobsMode.PROCESSED_LOGPROBS);
            int numSteps = size > 10_000 ? 20 : 120;
            for (int step = 0; step < numSteps; step++) {
                float[] logits = randomLogits(random, size);
                if (random.nextInt(4) == 0) {
                    Arrays.fill(logits, 0, random.nextInt(size) + 1, logits[0]); // ties
                }
                RowSampling any = randomRow(random, size);
                SamplingParams.Builder params = any.params().toBuilder();
                float[] topPs = {0.001f, 0.25f, 0.5f, 0.95f, 0.999f, 0.99999994f};
                if (random.nextInt(3) > 0) {
                    params.topP(topPs[random.nextInt(topPs.length)]).topK(0);
                }
                RowSampling row = with(params.build(), any);
                RowSampling scored = with(params.numLogprobs(0).build(), any);
                int expected = late.draw(logits.clone(), 0, scored);
                String where = "seed " + seed + ", vocabulary " + size + ", step " + step + ", " + row.params();
                assertEquals(expected, early.draw(logits.clone(), 0, row), where);
                assertEquals(expected, plain.draw(logits.clone(), 0, row), where);
            }
        }
    }

    private static RowSampling with(SamplingParams params, RowSampling row) {
        return new RowSampling(
                params,
                row.sampleIndex(),
                row.outputPosition(),
                row.tokenIds(),
                row.numPromptTokens(),
                row.numTokens(),
                row.suppressedTokenIds());
    }

    @Test
    void rawLogprobsDoNotDependOnHowTheTokenWasDrawn() {
        Random random = new Random(6);
        for (int step = 0; step < 100; step++) {
            float[] logits = randomLogits(random, 700);
            SamplingParams.Builder params =
                    SamplingParams.builder().seed(step).numLogprobs(3).temperature(step % 3 * 0.5f);
            params.topP(step % 2 == 0 ? 1 : 0.8f).topK(step % 5 == 0 ? 20 : 0);
            Sampler sampler = new Sampler(700, LogprobsMode.RAW_LOGPROBS);
            int drawn = sampler.draw(logits, 0, row(params.build(), 0, 0));
            TokenLogprobs reported = sampler.lastLogprobs();
            TokenLogprobs scored = new Sampler(700, LogprobsMode.RAW_LOGPROBS).score(logits, 0, drawn, 3);
            assertEquals(scored.logprob(), reported.logprob(), 0);
            assertArrayEquals(scored.topTokenIds(), reported.topTokenIds());
            assertArrayEquals(scored.topLogprobs(), reported.topLogprobs());
        }
    }

    @Test
    void drawsAreIndependentOfPlaceNeighboursAndHistory() {
        int vocabSize = 1000;
        Random random = new Random(11);
        float[] row0 = randomLogits(random, vocabSize);
        RowSampling row = row(SamplingParams.builder().topP(0.9f).seed(77).build(), 3, 5);
        int expected = new Sampler(vocabSize, LogprobsMode.RAW_LOGPROBS).draw(row0.clone(), 0, row);
        Sampler used = new Sampler(vocabSize, LogprobsMode.RAW_LOGPROBS);
        for (int place = 0; place < 9; place++) {
            float[] batch = randomLogits(random, 9 * vocabSize + 3);
            used.draw(batch, 0, randomRow(random, vocabSize));
            System.arraycopy(row0, 0, batch, place * vocabSize + 3, vocabSize);
            assertEquals(expected, used.draw(batch, place * vocabSize + 3, row), "place " + place);
        }
    }

    @Test
    void seedSampleIndexAndPositionEachChangeTheNoise() {
        float[] flat = new float[50_000];
        Sampler sampler = new Sampler(flat.length, LogprobsMode.RAW_LOGPROBS);
        Set<Integer> drawn = new HashSet<>();
        for (long seed : new long[] {0, 1, 1L << 32, -1}) {
            for (int sampleIndex = 0; sampleIndex < 3; sampleIndex++) {
                for (int position = 0; position < 3; position++) {
                    SamplingParams params = SamplingParams.builder().seed(seed).build();
                    drawn.add(sampler.draw(flat, 0, row(params, sampleIndex, position)));
                }
            }
        }
        assertTrue(drawn.size() >= 35, "36 draws from 50,000 equal tokens hit " + drawn.size());
    }

    @Test
    void noiseIsPhiloxOfTheDocumentedCounter() {
        float[] flat = new float[1001];
        SamplingParams params =
                SamplingParams.builder().seed(0x123456789abcdefL).build();
        RowSampling row = row(params, 9, 31);
        long greatestWord = -1;
        int expected = -1;
        for (int id = 0; id < flat.length; id++) {
            long word = NaiveSampler.philox(params.seed(), 9, 31, id / 4, 0)[id % 4];
            if (word > greatestWord) {
                greatestWord = word;
                expected = id;
            }
        }
        assertEquals(expected, new Sampler(1001, LogprobsMode.RAW_LOGPROBS).draw(flat, 0, row));
    }

    @Test
    void tiesKeepTheLowerId() {
        float[] logits = {1, 3, -0f, 3, 0, 3, 3};
        Sampler sampler = new Sampler(7, LogprobsMode.RAW_LOGPROBS);
        double[] probs = new double[7];
        sampler.distribution(
                logits.clone(), 0, row(SamplingParams.builder().topK(2).build(), 0, 0), probs);
        assertArrayEquals(new double[] {0, 0.5, 0, 0.5, 0, 0, 0}, probs, 1e-12);
        sampler.distribution(
                logits.clone(), 0, row(SamplingParams.builder().topK(6).build(), 0, 0), probs);
        assertTrue(probs[2] > 0, "-0 and 0 are equal logits, the lower id stays");
        assertEquals(0, probs[4]);
        sampler.distribution(
                logits.clone(), 0, row(SamplingParams.builder().topP(0.5f).build(), 0, 0), probs);
        assertTrue(probs[1] > 0 && probs[3] > 0, "half of the mass is above one and at most two of four ties and rest");
        assertEquals(0, probs[6]);
        assertEquals(
                1,
                sampler.draw(
                        logits.clone(),
                        0,
                        row(SamplingParams.builder().temperature(0).build(), 0, 0)));
    }

    @Test
    void greedyIsTakenAfterBiasPenaltiesAndSuppression() {
        float[] logits = {0, 5, 4, 3};
        Sampler sampler = new Sampler(4, LogprobsMode.RAW_LOGPROBS);
        SamplingParams greedy = SamplingParams.builder().temperature(0).build();
        assertEquals(1, sampler.draw(logits.clone(), 0, row(greedy, 0, 0)));
        assertEquals(2, sampler.draw(logits.clone(), 0, new RowSampling(greedy, 0, 0, NONE, 0, 0, new int[] {1})));
        SamplingParams biased = greedy.toBuilder().logitBias(Map.of(0, 6f)).build();
        assertEquals(0, sampler.draw(logits.clone(), 0, row(biased, 0, 0)));
        SamplingParams penalised = greedy.toBuilder().presencePenalty(1.5f).build();
        assertEquals(2, sampler.draw(logits.clone(), 0, new RowSampling(penalised, 0, 1, new int[] {1}, 0, 1, NONE)));
        assertEquals(
                1,
                sampler.draw(logits.clone(), 0, new RowSampling(penalised, 0, 0, new int[] {1}, 1, 1, NONE)),
                "presence counts the output only");
    }

    @Test
    void rawLogprobsAreTheModelsOwn() {
        int vocabSize = 500;
        Random random = new Random(3);
        float[] logits = randomLogits(random, vocabSize);
        SamplingParams params = SamplingParams.builder()
                .temperature(0.3f)
                .topK(4)
                .repetitionPenalty(1.7f)
                .logitBias(Map.of(7, 9f))
                .numLogprobs(5)
                .build();
        int[] tokens = {7, 8, 9, 10};
        RowSampling row = new RowSampling(params, 0, 2, tokens, 2, 4, new int[] {3});
        Sampler sampler = new Sampler(vocabSize, LogprobsMode.RAW_LOGPROBS);
        int drawn = sampler.draw(logits.clone(), 0, row);
        assertMatches(logSoftmax(logits), drawn, 5, sampler.lastLogprobs());
        assertMatches(logSoftmax(logits), 17, 3, sampler.score(logits, 0, 17, 3));
        assertMatches(logSoftmax(logits), 17, 0, sampler.score(logits, 0, 17, 0));
        assertNull(sampler.score(logits, 0, 17, -1));
        sampler.draw(logits.clone(), 0, row(SamplingParams.defaults(), 0, 0));
        assertNull(sampler.lastLogprobs(), "the last draw asked for none");
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 20})
    void processedLogprobsAreOfTheDistributionDrawnFrom(int numLogprobs) {
        int vocabSize = 500;
        Random random = new Random(4);
        for (int step = 0; step < 50; step++) {
            float[] logits = randomLogits(random, vocabSize);
            RowSampling any = randomRow(random, vocabSize);
            SamplingParams params = any.params().toBuilder()
                    .temperature(0.8f)
                    .numLogprobs(numLogprobs)
                    .build();
            RowSampling row = new RowSampling(
                    params, 1, 2, any.tokenIds(), any.numPromptTokens(), any.numTokens(), any.suppressedTokenIds());
            Sampler sampler = new Sampler(vocabSize, LogprobsMode.PROCESSED_LOGPROBS);
            double[] logprobs = NaiveSampler.distribution(logits, row);
            int numSurvivors = 0;
            for (int i = 0; i < vocabSize; i++) {
                numSurvivors += logprobs[i] > 0 ? 1 : 0;
                logprobs[i] = Math.log(logprobs[i]);
            }
            int drawn = sampler.draw(logits.clone(), 0, row);
            assertMatches(logprobs, drawn, Math.min(numLogprobs, numSurvivors), sampler.lastLogprobs());
        }
    }

    @Test
    void processedLogprobsOfGreedyDrawsAreBeforeTemperature() {
        float[] logits = {0, 2, 1};
        SamplingParams params =
                SamplingParams.builder().temperature(0).numLogprobs(2).build();
        Sampler sampler = new Sampler(3, LogprobsMode.PROCESSED_LOGPROBS);
        int drawn = sampler.draw(logits.clone(), 0, new RowSampling(params, 0, 0, NONE, 0, 0, new int[] {1}));
        assertEquals(2, drawn);
        assertMatches(logSoftmax(new float[] {0, Float.NEGATIVE_INFINITY, 1}), 2, 2, sampler.lastLogprobs());
    }

    @Test
    void refusesLogitsWithoutAFiniteMaximum() {
        Sampler sampler = new Sampler(100, LogprobsMode.RAW_LOGPROBS);
        RowSampling row = row(SamplingParams.defaults(), 0, 0);
        for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY}) {
            float[] logits = new float[100];
            logits[61] = bad;
            assertThrows(NonFiniteLogitsException.class, () -> sampler.draw(logits, 0, row));
        }
        float[] suppressed = new float[100];
        Arrays.fill(suppressed, Float.NEGATIVE_INFINITY);
        assertThrows(NonFiniteLogitsException.class, () -> sampler.draw(suppressed, 0, row));
    }

    @Test
    void refusesIdsOutsideOfTheVocabulary() {
        Sampler sampler = new Sampler(4, LogprobsMode.RAW_LOGPROBS);
        SamplingParams biased =
                SamplingParams.builder().logitBias(Map.of(4, 1f)).build();
        assertThrows(InvalidSamplingException.class, () -> sampler.draw(new float[4], 0, row(biased, 0, 0)));
        RowSampling suppressed = new RowSampling(SamplingParams.defaults(), 0, 0, NONE, 0, 0, new int[] {-1});
        assertThrows(InvalidSamplingException.class, () -> sampler.draw(new float[4], 0, suppressed));
    }

    @Test
    void extremeTemperaturesStayDrawable() {
        Sampler sampler = new Sampler(3, LogprobsMode.RAW_LOGPROBS);
        SamplingParams cold =
                SamplingParams.builder().temperature(Float.MIN_VALUE).build();
        assertEquals(1, sampler.draw(new float[] {1, 2, -3}, 0, row(cold, 0, 0)));
        SamplingParams hot = SamplingParams.builder().temperature(100).build();
        double[] probs = new double[3];
        sampler.distribution(new float[] {1, 2, -3}, 0, row(hot, 0, 0), probs);
        assertEquals(1.0 / 3, probs[0], 0.02);
    }

    @Test
    void penaltyCountsAreClearedBetweenRows() {
        Sampler sampler = new Sampler(50, LogprobsMode.RAW_LOGPROBS);
        SamplingParams params =
                SamplingParams.builder().temperature(0).frequencyPenalty(2).build();
        RowSampling row = new RowSampling(params, 0, 0, new int[] {5, 5, 5}, 0, 3, NONE);
        float[] first = new float[50];
        float[] second = new float[50];
        sampler.draw(first, 0, row);
        sampler.draw(second, 0, row);
        assertEquals(-6, first[5]);
        assertArrayEquals(first, second);
    }

    @Test
    void plainPathAllocatesNothing() {
        com.sun.management.ThreadMXBean threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        Sampler sampler = new Sampler(2048, LogprobsMode.RAW_LOGPROBS, LogitKernels.scalar());
        float[] logits = randomLogits(new Random(1), 2048);
        SamplingParams params = SamplingParams.builder()
                .topP(0.9f)
                .topK(500)
                .minP(0.001f)
                .presencePenalty(0.1f)
                .build();
        RowSampling row = new RowSampling(params, 0, 0, new int[] {1, 2, 3}, 1, 3, NONE);
        RowSampling untruncated = row(SamplingParams.defaults(), 0, 0);
        for (int i = 0; i < 10; i++) {
            sampler.draw(logits, 0, row);
            sampler.draw(logits, 0, untruncated);
        }
        long thread = Thread.currentThread().getId();
        long before = threads.getThreadAllocatedBytes(thread);
        for (int i = 0; i < 100; i++) {
            sampler.draw(logits, 0, row);
            sampler.draw(logits, 0, untruncated);
        }
        long allocated = threads.getThreadAllocatedBytes(thread) - before;
        assertTrue(allocated < 2000, "200 draws allocated " + allocated + " bytes");
    }

    private static void assertMatches(double[] expected, int tokenId, int numTop, TokenLogprobs actual) {
        assertEquals(tokenId, actual.tokenId());
        assertEquals(expected[tokenId], actual.logprob(), 1e-4);
        Integer[] order = new Integer[expected.length];
        Arrays.setAll(order, i -> i);
        Arrays.sort(
                order,
                (a, b) ->
                        expected[a] == expected[b] ? Integer.compare(a, b) : Double.compare(expected[b], expected[a]));
        assertEquals(numTop, actual.topTokenIds().length);
        assertEquals(numTop, actual.topLogprobs().length);
        for (int i = 0; i < numTop; i++) {
            assertEquals(order[i], actual.topTokenIds()[i], "alternative " + i);
            assertEquals(expected[order[i]], actual.topLogprobs()[i], 1e-4);
        }
    }

    private static double[] logSoftmax(float[] logits) {
        double sum = 0;
        for (float logit : logits) {
            sum += Math.exp(logit);
        }
        double[] result = new double[logits.length];
        for (int i = 0; i < result.length; i++) {
            result[i] = logits[i] - Math.log(sum);
        }
        return result;
    }

    private static float[] randomLogits(Random random, int length) {
        float[] logits = new float[length];
        double spread = 0.5 + 6 * random.nextDouble();
        boolean isCoarse = random.nextInt(3) == 0;
        for (int i = 0; i < length; i++) {
            double logit = random.nextGaussian() * spread;
            logits[i] = (float) (isCoarse ? Math.rint(2 * logit) / 2 : logit);
        }
        return logits;
    }

    private static RowSampling randomRow(Random random, int vocabSize) {
        SamplingParams.Builder params = SamplingParams.builder()
                .seed(random.nextLong())
                .temperature(random.nextInt(10) == 0 ? 0 : 0.2f + 1.8f * random.nextFloat());
        if (random.nextBoolean()) {
            params.topP(0.01f + 0.98f * random.nextFloat());
        }
        if (random.nextBoolean()) {
            params.topK(random.nextInt(random.nextBoolean() ? vocabSize + 1 : Math.min(vocabSize, 50) + 1));
        }
        if (random.nextInt(3) == 0) {
            params.minP(0.3f * random.nextFloat());
        }
        if (random.nextInt(3) == 0) {
            params.repetitionPenalty(0.5f + random.nextFloat());
            params.frequencyPenalty(random.nextFloat() - 0.5f);
            params.presencePenalty(random.nextFloat() - 0.5f);
        }
        if (random.nextInt(4) == 0) {
            params.logitBias(Map.of(random.nextInt(vocabSize), 10 * random.nextFloat()));
        }
        int[] tokens = random.ints(random.nextInt(60) + 1, 0, vocabSize).toArray();
        int numTokens = random.nextInt(tokens.length + 1);
        int[] suppressed = vocabSize > 3 && random.nextInt(4) == 0 ? new int[] {random.nextInt(vocabSize)} : NONE;
        return new RowSampling(
                params.build(),
                random.nextInt(8),
                random.nextInt(1000),
                tokens,
                numTokens == 0 ? 0 : random.nextInt(numTokens),
                numTokens,
                suppressed);
    }

    private static RowSampling row(SamplingParams params, int sampleIndex, int outputPosition) {
        return new RowSampling(params, sampleIndex, outputPosition, NONE, 0, 0, NONE);
    }

    @Test
    void aWrongSettingIsShownAsItWasGiven() {
        InvalidSamplingException number = assertThrows(
                InvalidSamplingException.class,
                () -> SamplingParams.builder().temperature(-0.1f).build());
        assertEquals("sampling setting 'temperature' = -0.1 must lie in [0, 100]", number.getMessage());
        InvalidSamplingException count = assertThrows(
                InvalidSamplingException.class,
                () -> SamplingParams.builder().numLogprobs(21).build());
        assertEquals("sampling setting 'logprobs' = 21 must lie in [-1, 20]", count.getMessage());
    }
}
