package io.millrace.kernels;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The vector kernels against their scalar twins, bit by bit, and the twins against plain arithmetic. */
class KernelTwinsTest {
    private static final float[] NOT_FINITE = {
        Float.NEGATIVE_INFINITY,
        Float.POSITIVE_INFINITY,
        Float.intBitsToFloat(0x7fc00000),
        Float.intBitsToFloat(0xffc00000)
    };

    private static final boolean[] BOTH = {false, true};

    private final Kernels vector = KernelChoice.best().kernels();
    private final Kernels scalar = new ScalarKernels();

    @Test
    void vectorKernelsRunInTests() {
        assertEquals("", KernelChoice.best().remark());
        assertTrue(vector.name().startsWith("vector-"), vector.name());
    }

    @Test
    void exp2IsCloseToTheTrueValue() {
        for (float x = -125; x < 126; x += 0.0137f) {
            double expected = Math.pow(2, x);
            assertEquals(1, Exp2.of(x) / expected, 2e-7, "2^" + x);
        }
        assertEquals(0f, Exp2.of(Float.NEGATIVE_INFINITY));
        assertEquals(1f, Exp2.of(0f));
        assertTrue(Float.isNaN(Exp2.of(Float.NaN)));
    }

    /** Over all scores that do not raise the maximum, and as far below it as a float32 number reaches. */
    @Test
    void powersOfScoresAreCloseToTheTrueValue() {
        for (float maximum : new float[] {0, 3.3f, -77.1f, 1000.7f}) {
            for (float distance = 140; distance >= -Kernels.SLACK; distance -= 0.00737f) {
                float score = maximum - distance;
                double expected = Math.pow(2, score - maximum);
                float power = Exp2.ofScore(score, maximum);
                if (distance > 126.51) {
                    assertEquals(0f, power, "2^-" + distance);
                } else if (distance < 125.9) {
                    assertEquals(1, power / expected, 2e-7, "2^-" + distance);
                }
            }
        }
        assertEquals(1f, Exp2.ofScore(-3.7f, -3.7f));
        assertEquals(0f, Exp2.ofScore(Float.NEGATIVE_INFINITY, 0));
        assertEquals(0f, Exp2.ofScore(-Float.MAX_VALUE, Float.MAX_VALUE));
        assertTrue(Float.isNaN(Exp2.ofScore(Float.NaN, 0)));
        assertTrue(Float.isNaN(Exp2.ofScore(Float.POSITIVE_INFINITY, Float.POSITIVE_INFINITY)));
    }

    /** Half a unit of bfloat16 where that is most, and what the polynomial adds. Over all scores that do not raise the maximum. */
    @Test
    void factorsAreRoundedPowers() {
        for (float maximum : new float[] {0, 3.3f, -77.1f, 1000.7f}) {
            float lastFactor = 0;
            for (float distance = 60; distance >= -Kernels.SLACK; distance -= 0.00137f) {
                float score = maximum - distance;
                double expected = Math.pow(2, (double) score - maximum);
                float factor = Exp2.toBfloat16(score, maximum);
                assertEquals(
                        Bfloat16.widen(Bfloat16.roundFactor(factor)),
                        factor,
                        "a bfloat16 number of no small magnitude");
                assertTrue(factor >= lastFactor, "factors rise with scores");
                lastFactor = factor;
                if (distance > 48.01) {
                    assertEquals(0, factor);
                } else if (distance < 47.99) {
                    assertEquals(1, factor / expected, 0x1p-8 + 1e-4, "2^-" + distance);
                }
            }
        }
    }

    @Test
    void factorsOfWholePowersAreExact() {
        for (float maximum : new float[] {0, 5, -3.7f, 123.4f}) {
            for (int power = -30; power <= Kernels.SLACK; power++) {
                assertEquals(Math.scalb(1f, power), Exp2.toBfloat16(maximum + power, maximum), "2^" + power);
            }
        }
        assertEquals(0x1p-47f, Exp2.toBfloat16(-47, 0));
        assertEquals(0f, Exp2.toBfloat16(Float.NEGATIVE_INFINITY, 0));
        assertEquals(0f, Exp2.toBfloat16(-Float.MAX_VALUE, 1000));
        assertTrue(Float.isNaN(Exp2.toBfloat16(Float.NaN, 0)));
        assertTrue(Float.isNaN(Exp2.toBfloat16(Float.intBitsToFloat(0xffc00000), 0)));
        assertTrue(Float.isNaN(Exp2.toBfloat16(Float.POSITIVE_INFINITY, Float.POSITIVE_INFINITY)));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 7, 8, 15, 16, 17, 31, 32, 64, 100, 160, 576, 577})
    void rowKernelsAgree(int count) {
        for (int repeat = 0; repeat < 200; repeat++) {
            Random random = new Random(1000L * count + repeat);
            float[] x = gaussian(random, count + 3, repeat % 5 == 0 ? 100 : 1);
            float[] y = gaussian(random, count + 2, 1);
            float[] weight = gaussian(random, count, 1);
            float[] out1 = new float[count + 1];
            float[] out2 = new float[count + 1];
            vector.rmsNorm(x, 3, weight, 1e-5f, out1, 1, count);
            scalar.rmsNorm(x, 3, weight, 1e-5f, out2, 1, count);
            assertSameBits(out2, out1);
            float[] sum1 = x.clone();
            float[] sum2 = x.clone();
            vector.scale(sum1, 3, 0.37f, count);
            scalar.scale(sum2, 3, 0.37f, count);
            vector.add(sum1, 3, y, 2, count);
            scalar.add(sum2, 3, y, 2, count);
            vector.rotate(sum1, 3, y, weight, 0, count / 2);
            scalar.rotate(sum2, 3, y, weight, 0, count / 2);
            assertSameBits(sum2, sum1);
            short[] half1 = new short[count + 1];
            short[] half2 = new short[count + 1];
            vector.toBfloat16(x, 3, half1, 1, count);
            scalar.toBfloat16(x, 3, half2, 1, count);
            assertArrayEquals(half2, half1);
            for (Kernels kernels : new Kernels[] {scalar, vector}) {
                short[] narrowed = new short[count + 1];
                kernels.toBfloat16(out1, 1, narrowed, 1, count);
                kernels.rmsNormToBfloat16(x, 3, weight, 1e-5f, half1, 1, count);
                assertArrayEquals(narrowed, half1, kernels.name());
            }
        }
    }

    @Test
    void bfloat16RoundsToNearestEven() {
        assertEquals(1f, Bfloat16.widen(Bfloat16.round(1f + 0x1p-8f)));
        assertEquals(1f + 0x1p-6f, Bfloat16.widen(Bfloat16.round(1f + 0x1p-7f + 0x1p-8f)));
        assertEquals(1f + 0x1p-7f, Bfloat16.widen(Bfloat16.round(1f + 0x1p-8f + 0x1p-20f)));
        assertTrue(Float.isNaN(Bfloat16.widen(Bfloat16.round(Float.NaN))));
        assertEquals(Float.POSITIVE_INFINITY, Bfloat16.widen(Bfloat16.round(Float.MAX_VALUE)));
    }

    @Test
    void findsEveryNonFinite() {
        for (int at = 0; at < 100; at++) {
            for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
                float[] x = new float[100];
                Arrays.fill(x, -1f);
                assertTrue(vector.isFinite(x, 0, 100) && scalar.isFinite(x, 0, 100));
                x[at] = bad;
                assertTrue(!vector.isFinite(x, 0, 100) && !scalar.isFinite(x, 0, 100), at + " " + bad);
            }
        }
    }

    /** Vector and scalar give the same bits, and pairs of bfloat16 about what float32 gives. */
    @ParameterizedTest
    @ValueSource(ints = {8, 16, 24, 32, 48, 64, 80, 128})
    void attentionKernelsAgree(int headDim) {
        for (int seed = 0; seed < 60; seed++) {
            Random random = new Random(77L * headDim + seed);
            int rows = 1 + random.nextInt(11);
            int blockElements = headDim * Kernels.BLOCK_SIZE;
            float[] keys = rounded(gaussian(random, blockElements * 6, 0.3f));
            float[] values = rounded(gaussian(random, blockElements * 6, 1));
            int[] pairedKeys = new int[keys.length / 2];
            int[] pairedValues = new int[values.length / 2];
            pair(keys, values, headDim, pairedKeys, pairedValues);
            float[] queries = rounded(gaussian(random, rows * headDim, 1));
            int[] offsets = new int[4];
            int[] pairedOffsets = new int[4];
            for (int b = 0; b < 4; b++) {
                offsets[b] = random.nextInt(6) * blockElements;
                pairedOffsets[b] = offsets[b] / 2;
            }
            int[] counts = new int[rows];
            for (int r = 0; r < rows; r++) {
                counts[r] = 1 + random.nextInt(64);
            }
            Arrays.sort(counts);
            Record floats = new Floats(keys, values, offsets);
            Record pairs = new Pairs(pairedKeys, pairedValues, pairedOffsets);
            float[][] byFloats = attend(scalar, queries, headDim, counts, floats);
            float[][] byPairs = attend(scalar, queries, headDim, counts, pairs);
            float[][] vectorByFloats = attend(vector, queries, headDim, counts, floats);
            float[][] vectorByPairs = attend(vector, queries, headDim, counts, pairs);
            for (int i = 0; i < byFloats.length; i++) {
                assertSameBits(byFloats[i], vectorByFloats[i]);
                assertSameBits(byPairs[i], vectorByPairs[i]);
            }
            float[] exact = byFloats[byFloats.length - 1];
            float[] rounded = byPairs[byPairs.length - 1];
            for (int j = 0; j < exact.length; j++) {
                assertEquals(exact[j], rounded[j], 0.05 + 0.01 * Math.abs(exact[j]));
            }
        }
    }

    @Test
    void weightsAreRoundedPowers() {
        float[] scores = new float[Kernels.TILE_SIZE];
        for (int p = 0; p < scores.length; p++) {
            scores[p] = -0.83f * p;
        }
        for (Kernels kernels : new Kernels[] {scalar, vector}) {
            for (float before : new float[] {-33, -31.5f}) {
                float[] weights = scores.clone();
                float[] maxima = {before};
                float[] sums = new float[Kernels.LANES];
                kernels.foldScores(weights, 0, 64, 0, 1, new int[] {60}, maxima, sums, new float[1], true);
                float maximum = before < -Kernels.SLACK ? 0 : before;
                assertEquals(maximum, maxima[0], 0f);
                for (int p = 0; p < weights.length; p++) {
                    float power = scores[p] - maximum;
                    double exact = Math.pow(2, power);
                    float expected = p >= 60 || power < -48 ? 0f : Bfloat16.widen(Bfloat16.round((float) exact));
                    assertEquals(expected, weights[p], expected * 0x1p-7, "position " + p + " from " + before);
                    assertEquals(0, Float.floatToRawIntBits(weights[p]) & 0xffff, "position " + p);
                }
            }
        }
    }

    @Test
    void aScoreThatIsNoNumberIsNotForgotten() {
        for (Kernels kernels : new Kernels[] {scalar, vector}) {
            for (float bad : new float[] {Float.NaN, -Float.NaN, Float.POSITIVE_INFINITY}) {
                for (boolean toBfloat16 : BOTH) {
                    float[] scores = new float[Kernels.TILE_SIZE];
                    scores[7] = bad;
                    float[] maxima = {1};
                    float[] sums = new float[Kernels.LANES];
                    kernels.foldScores(scores, 0, 64, 0, 1, new int[] {64}, maxima, sums, new float[1], toBfloat16);
                    assertTrue(Float.isNaN(scores[7]), kernels.name() + " makes " + bad + " " + scores[7]);
                    assertTrue(Float.isNaN(kernels.sumLanes(sums, 0)));
                }
            }
        }
    }

    @Test
    void tinyFactorsBecomeZero() {
        float[] x = {0x1p-48f, 0x1.fep-49f, -0x1p-48f, -0x1p-60f, Float.MIN_VALUE, 0f, -0f, 1.5f};
        float[] expected = {0x1p-48f, 0f, -0x1p-48f, 0f, 0f, 0f, 0f, 1.5f};
        for (Kernels kernels : new Kernels[] {scalar, vector}) {
            float[] padded = java.util.Arrays.copyOf(x, 19);
            float[] out = new float[20];
            kernels.scaleToBfloat16(padded, 0, 1f, out, 1, padded.length);
            kernels.scaleToBfloat16(padded, 0, 1f, padded, 0, padded.length);
            assertSameBits(java.util.Arrays.copyOf(expected, 19), padded);
            assertSameBits(padded, java.util.Arrays.copyOfRange(out, 1, 20));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 16, 19, 64})
    void pairsAreRoundedFactors(int count) {
        Random random = new Random(count);
        for (int repeat = 0; repeat < 100; repeat++) {
            float[] low = gaussian(random, count + 2, repeat % 5 == 0 ? 0x1p-47f : 1);
            float[] high = gaussian(random, count + 3, 1);
            int[] expected = new int[count + 1];
            for (int i = 0; i < count; i++) {
                expected[1 + i] = Bfloat16.pair(low[2 + i], high[3 + i]);
            }
            for (Kernels kernels : new Kernels[] {scalar, vector}) {
                int[] together = new int[count + 1];
                kernels.pairBfloat16(low, 2, high, 3, together, 1, count);
                assertArrayEquals(expected, together, kernels.name());
                int[] each = random.ints(count + 1).toArray();
                each[0] = 0;
                kernels.putBfloat16(high, 3, each, 1, count, true);
                kernels.putBfloat16(low, 2, each, 1, count, false);
                assertArrayEquals(expected, each, kernels.name());
            }
        }
    }

    @Test
    void scoresMayStandSomeStrideApart() {
        Random random = new Random(4);
        int rows = 5;
        int stride = 3 * Kernels.TILE_SIZE;
        float[] apart = new float[7 + rows * stride];
        float[] together = new float[2 * Kernels.TILE_SIZE + rows * Kernels.TILE_SIZE]; // rows from the third on
        for (int i = 0; i < apart.length; i++) {
            apart[i] = (float) random.nextGaussian();
        }
        for (int r = 0; r < rows; r++) {
            System.arraycopy(apart, 7 + r * stride, together, (2 + r) * Kernels.TILE_SIZE, Kernels.TILE_SIZE);
        }
        int[] counts = {64, 64, 1, 17, 40, 63, 64};
        for (Kernels kernels : new Kernels[] {scalar, vector}) {
            for (boolean toBfloat16 : BOTH) {
                float[][] apartFolded = foldTwoOn(kernels, apart.clone(), 7, stride, rows, counts, toBfloat16);
                float[][] folded = foldTwoOn(
                        kernels, together.clone(), 2 * Kernels.TILE_SIZE, Kernels.TILE_SIZE, rows, counts, toBfloat16);
                for (int i = 1; i < folded.length; i++) {
                    assertSameBits(folded[i], apartFolded[i]);
                }
            }
            float[][] ofApart = foldTwoOn(kernels, apart.clone(), 7, stride, rows, counts, true);
            float[][] ofTogether =
                    foldTwoOn(kernels, together.clone(), 2 * Kernels.TILE_SIZE, Kernels.TILE_SIZE, rows, counts, true);
            short[] narrow = new short[3 + rows * Kernels.TILE_SIZE];
            kernels.narrow(ofTogether[0], 2 * Kernels.TILE_SIZE, narrow, 3, rows * Kernels.TILE_SIZE);
            for (int i = 0; i < rows * Kernels.TILE_SIZE; i++) {
                float weight = ofTogether[0][2 * Kernels.TILE_SIZE + i];
                assertEquals(weight, ofApart[0][7 + i / Kernels.TILE_SIZE * stride + i % Kernels.TILE_SIZE]);
                assertEquals(weight, Bfloat16.widen(narrow[3 + i]), "element " + i);
            }
        }
    }

    /** Maxima are raised by some tiles and not by others, of some rows and not of others. */
    @Test
    void tilesTogetherAreTilesOneByOne() {
        for (int seed = 0; seed < 200; seed++) {
            Random random = new Random(seed);
            int rows = 1 + random.nextInt(12);
            int firstRow = random.nextInt(3);
            int numTiles = 1 << random.nextInt(3);
            int width = numTiles * Kernels.TILE_SIZE;
            float[] scores = new float[rows * width];
            for (int i = 0; i < scores.length; i++) {
                boolean isHigh = random.nextInt(300) == 0;
                scores[i] = (float) random.nextGaussian() * 4 + (isHigh ? 60 * random.nextFloat() : 0);
            }
            for (boolean toBfloat16 : BOTH) {
                float[][] expected = null;
                for (Kernels kernels : new Kernels[] {scalar, vector}) {
                    for (boolean areTogether : BOTH) {
                        float[][] folded =
                                foldTiles(kernels, scores.clone(), numTiles, firstRow, rows, areTogether, toBfloat16);
                        expected = expected == null ? folded : expected;
                        for (int i = 0; i < folded.length; i++) {
                            assertSameBits(expected[i], folded[i]);
                        }
                    }
                }
            }
        }
    }

    /** Whatever its sign, and in whichever of the tiles: the row's sum is none, and other rows' are as without it. */
    @Test
    void nonNumbersStayInTheirRow() {
        int numTiles = 4;
        int width = numTiles * Kernels.TILE_SIZE;
        for (float single : NOT_FINITE) {
            for (int at = width; at < 2 * width; at += 7) {
                for (Kernels kernels : new Kernels[] {scalar, vector}) {
                    for (boolean toBfloat16 : BOTH) {
                        float[] scores = gaussian(new Random(at), 3 * width, 4);
                        scores[at] = single;
                        float[] sums = foldTiles(kernels, scores, numTiles, 0, 3, true, toBfloat16)[numTiles + 2];
                        boolean isNone = single != Float.NEGATIVE_INFINITY;
                        assertEquals(isNone, Float.isNaN(kernels.sumLanes(sums, 1)), single + " at " + at);
                        assertTrue(kernels.sumLanes(sums, 0) > 0 && kernels.sumLanes(sums, 2) > 0);
                    }
                }
            }
        }
    }

    private static float[][] foldTiles(
            Kernels kernels,
            float[] scores,
            int numTiles,
            int firstRow,
            int rows,
            boolean areTogether,
            boolean toBfloat16) {
        float[] maxima = new float[firstRow + rows];
        for (int r = 0; r < maxima.length; r++) {
            maxima[r] = r % 3 == 0 ? Float.NEGATIVE_INFINITY : 4;
        }
        float[] sums = new float[maxima.length * Kernels.LANES];
        Arrays.fill(sums, 1f);
        float[][] factors = new float[numTiles][maxima.length];
        if (areTogether) {
            kernels.foldTiles(scores, numTiles, firstRow, rows, maxima, sums, factors, toBfloat16);
        } else {
            int[] counts = new int[maxima.length];
            Arrays.fill(counts, Kernels.TILE_SIZE);
            int width = numTiles * Kernels.TILE_SIZE;
            for (int t = 0; t < numTiles; t++) {
                int offset = t * Kernels.TILE_SIZE;
                kernels.foldScores(scores, offset, width, firstRow, rows, counts, maxima, sums, factors[t], toBfloat16);
            }
        }
        float[][] all = Arrays.copyOf(factors, numTiles + 3);
        all[numTiles] = scores;
        all[numTiles + 1] = maxima;
        all[numTiles + 2] = sums;
        return all;
    }

    @Test
    void maximaAreRaisedOnlyByScoresFarAbove() {
        for (Kernels kernels : new Kernels[] {scalar, vector}) {
            for (boolean toBfloat16 : BOTH) {
                float[] scores = new float[Kernels.TILE_SIZE];
                scores[5] = Kernels.SLACK + 1;
                float[] maxima = {1};
                float[] sums = new float[Kernels.LANES];
                float[] factors = new float[1];
                int[] counts = {64};
                kernels.foldScores(scores.clone(), 0, 64, 0, 1, counts, maxima, sums, factors, toBfloat16);
                assertEquals(1, maxima[0]);
                assertEquals(1, factors[0]);
                assertEquals(0x1p32f + 63 * 0.5f, kernels.sumLanes(sums, 0));
                scores[5] += 1;
                kernels.foldScores(scores, 0, 64, 0, 1, counts, maxima, sums, factors, toBfloat16);
                assertEquals(Kernels.SLACK + 2, maxima[0]);
                assertEquals(0x1p-33f, factors[0]);
                assertEquals(1, scores[5]);
            }
        }
    }

    /** Also by one next to the border, an infinite one and one that is no number, wherever in the tile it stands. */
    @Test
    void aSingleScoreRaisesTheMaximumAsInTheTwin() {
        float bound = 3 + Kernels.SLACK;
        float[] singles = Arrays.copyOf(NOT_FINITE, NOT_FINITE.length + 3);
        singles[NOT_FINITE.length] = bound;
        singles[NOT_FINITE.length + 1] = Math.nextUp(bound);
        singles[NOT_FINITE.length + 2] = Math.nextDown(bound);
        int[] counts = {64};
        for (float single : singles) {
            for (int at = 0; at < Kernels.TILE_SIZE; at++) {
                for (Kernels kernels : new Kernels[] {scalar, vector}) {
                    for (boolean toBfloat16 : BOTH) {
                        String what = kernels.name() + ", " + single + " at " + at;
                        float[] scores = new float[Kernels.TILE_SIZE];
                        scores[at] = single;
                        float[] maxima = {3};
                        float[] factors = new float[1];
                        float[] sums = new float[Kernels.LANES];
                        kernels.foldScores(scores, 0, 64, 0, 1, counts, maxima, sums, factors, toBfloat16);
                        assertEquals(single > bound ? single : 3, maxima[0], what);
                        assertEquals(single > bound ? Exp2.of(3 - single) : 1, factors[0], what);
                        assertEquals(Float.isNaN(single) || single > Float.MAX_VALUE, Float.isNaN(scores[at]), what);
                    }
                }
            }
        }
    }

    /** Scores, maxima, sums and factors of rows from the third on. */
    private static float[][] foldTwoOn(
            Kernels kernels, float[] scores, int offset, int stride, int rows, int[] counts, boolean toBfloat16) {
        float[] maxima = new float[rows + 2];
        Arrays.fill(maxima, -0.5f);
        float[] sums = new float[(rows + 2) * Kernels.LANES];
        float[] factors = new float[rows + 2];
        kernels.foldScores(scores, offset, stride, 2, rows, counts, maxima, sums, factors, toBfloat16);
        return new float[][] {scores, maxima, sums, factors};
    }

    private static float[] rounded(float[] x) {
        for (int i = 0; i < x.length; i++) {
            x[i] = Bfloat16.widen(Bfloat16.round(x[i]));
        }
        return x;
    }

    /** Blocks of [d][slot] keys and [slot][d] values as pairs; blocks follow each other without gaps. */
    private static void pair(float[] keys, float[] values, int headDim, int[] pairedKeys, int[] pairedValues) {
        for (int i = 0; i < pairedKeys.length; i++) {
            int key = i / Kernels.BLOCK_SIZE * 2 * Kernels.BLOCK_SIZE + i % Kernels.BLOCK_SIZE;
            pairedKeys[i] = Bfloat16.pair(keys[key], keys[key + Kernels.BLOCK_SIZE]);
        }
        for (int pair = 0; pair < pairedValues.length / headDim; pair++) {
            for (int d = 0; d < headDim; d++) {
                int low = 2 * pair * headDim + d;
                pairedValues[pair * headDim + d] = Bfloat16.pair(values[low], values[low + headDim]);
            }
        }
    }

    private record Floats(float[] keys, float[] values, int[] offsets) {}

    private record Pairs(int[] keys, int[] values, int[] offsets) {}

    /** Two folds over the same tile: scores, maxima, sums, accumulators, and what attention gives. */
    private static float[][] attend(Kernels kernels, float[] queries, int headDim, int[] counts, Record tile) {
        int rows = counts.length;
        int numBlocks = (counts[rows - 1] + 15) / 16;
        float[] scores = new float[rows * Kernels.TILE_SIZE];
        float[] maxima = new float[rows];
        Arrays.fill(maxima, Float.NEGATIVE_INFINITY);
        float[] sums = new float[rows * Kernels.LANES];
        float[] accumulators = new float[rows * headDim];
        float[] factors = new float[rows];
        float[] openSums = new float[rows * headDim];
        for (int repeat = 0; repeat < 2; repeat++) {
            if (tile instanceof Pairs pairs) {
                kernels.scores(queries, 0, rows, headDim, pairs.keys, pairs.offsets, numBlocks, scores);
            } else if (tile instanceof Floats floats) {
                kernels.scores(queries, 0, rows, headDim, floats.keys, floats.offsets, numBlocks, scores);
            }
            boolean toBfloat16 = tile instanceof Pairs;
            kernels.foldScores(scores, 0, Kernels.TILE_SIZE, 0, rows, counts, maxima, sums, factors, toBfloat16);
            for (int r = 0; r < rows; r++) {
                kernels.scale(accumulators, r * headDim, factors[r], headDim);
            }
            Arrays.fill(openSums, 0f);
            accumulate(kernels, scores, counts, headDim, tile, openSums);
            kernels.add(accumulators, 0, openSums, 0, rows * headDim);
            // The chain goes on, from sums that differ from row to row.
            accumulate(kernels, scores, counts, headDim, tile, openSums);
            scale(queries, 2); // so that the second fold raises maxima
        }
        scale(queries, 0.25f);
        float[] attended = accumulators.clone();
        for (int r = 0; r < rows; r++) {
            kernels.scale(attended, r * headDim, 1f / kernels.sumLanes(sums, r), headDim);
        }
        return new float[][] {scores, maxima, sums, accumulators, openSums, attended};
    }

    private static void accumulate(
            Kernels kernels, float[] weights, int[] counts, int headDim, Record tile, float[] openSums) {
        int rows = counts.length;
        if (tile instanceof Pairs pairs) {
            kernels.accumulate(weights, 0, rows, counts, headDim, pairs.values, pairs.offsets, openSums);
        } else if (tile instanceof Floats floats) {
            kernels.accumulate(weights, 0, rows, counts, headDim, floats.values, floats.offsets, openSums);
        }
    }

    private static void scale(float[] x, float factor) {
        for (int i = 0; i < x.length; i++) {
            x[i] *= factor;
        }
    }

    private static float[] gaussian(Random random, int count, float scale) {
        float[] x = new float[count];
        for (int i = 0; i < count; i++) {
            x[i] = (float) random.nextGaussian() * scale;
        }
        return x;
    }

    private static void assertSameBits(float[] expected, float[] actual) {
        assertEquals(expected.length, actual.length);
        for (int i = 0; i < expected.length; i++) {
            if (Float.floatToIntBits(expected[i]) != Float.floatToIntBits(actual[i])) {
                throw new AssertionError("element " + i + ": " + expected[i] + " and " + actual[i]);
            }
        }
    }
}
