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
            vector.siluMultiply(x, 3, y, 2, out1, 1, count);
            scalar.siluMultiply(x, 3, y, 2, out2, 1, count);
            assertSameBits(out2, out1);
            float[] sum1 = x.clone();
            float[] sum2 = x.clone();
            vector.add(sum1, 3, y, 2, count);
            scalar.add(sum2, 3, y, 2, count);
            vector.scale(sum1, 3, 0.37f, count);
            scalar.scale(sum2, 3, 0.37f, count);
            vector.rotate(sum1, 3, y, weight, 0, count / 2);
            scalar.rotate(sum2, 3, y, weight, 0, count / 2);
            assertSameBits(sum2, sum1);
            short[] half1 = new short[count + 1];
            short[] half2 = new short[count + 1];
            vector.toBfloat16(x, 3, half1, 1, count);
            scalar.toBfloat16(x, 3, half2, 1, count);
            assertArrayEquals(half2, half1);
            vector.fromBfloat16(half1, 1, out1, 1, count);
            scalar.fromBfloat16(half1, 1, out2, 1, count);
            assertSameBits(out2, out1);
        }
    }

    @Test
    void siluMatchesItsDefinition() {
        float[] gate = {-120f, -20f, -3f, -0.5f, 0f, 0.25f, 2f, 9f, 60f, 130f};
        float[] up = new float[gate.length];
        Arrays.fill(up, 1f);
        float[] out = new float[gate.length];
        scalar.siluMultiply(gate, 0, up, 0, out, 0, gate.length);
        for (int i = 0; i < gate.length; i++) {
            double expected = gate[i] / (1 + Math.exp(-(double) gate[i]));
            assertEquals(expected, out[i], 1e-6 * Math.max(1, Math.abs(expected)), "silu(" + gate[i] + ")");
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

    @ParameterizedTest
    @ValueSource(ints = {8, 16, 32, 48, 64, 80, 128})
    void attentionKernelsAgree(int headDim) {
        for (int seed = 0; seed < 60; seed++) {
            Random random = new Random(77L * headDim + seed);
            int rows = 1 + random.nextInt(11);
            int blockElements = headDim * Kernels.BLOCK_SIZE;
            float[] keys = gaussian(random, blockElements * 6, 0.3f);
            float[] values = gaussian(random, blockElements * 6, 1);
            short[] halfKeys = new short[keys.length];
            short[] halfValues = new short[values.length];
            scalar.toBfloat16(keys, 0, halfKeys, 0, keys.length);
            scalar.toBfloat16(values, 0, halfValues, 0, values.length);
            float[] queries = gaussian(random, rows * headDim, 1);
            int[] offsets = new int[4];
            for (int b = 0; b < 4; b++) {
                offsets[b] = random.nextInt(6) * blockElements;
            }
            int[] counts = new int[rows];
            for (int r = 0; r < rows; r++) {
                counts[r] = 1 + random.nextInt(64);
            }
            Arrays.sort(counts);
            int numBlocks = (counts[rows - 1] + 15) / 16;
            for (boolean half : new boolean[] {false, true}) {
                float[][] one = attend(
                        vector,
                        half,
                        queries,
                        rows,
                        headDim,
                        keys,
                        halfKeys,
                        values,
                        halfValues,
                        offsets,
                        counts,
                        numBlocks);
                float[][] two = attend(
                        scalar,
                        half,
                        queries,
                        rows,
                        headDim,
                        keys,
                        halfKeys,
                        values,
                        halfValues,
                        offsets,
                        counts,
                        numBlocks);
                for (int i = 0; i < one.length; i++) {
                    assertSameBits(two[i], one[i]);
                }
            }
        }
    }

    /** Two folds over the same tile: scores, maxima, sums and accumulators. */
    private static float[][] attend(
            Kernels kernels,
            boolean half,
            float[] queries,
            int rows,
            int headDim,
            float[] keys,
            short[] halfKeys,
            float[] values,
            short[] halfValues,
            int[] offsets,
            int[] counts,
            int numBlocks) {
        float[] scores = new float[rows * Kernels.TILE_SIZE];
        float[] maxima = new float[rows];
        Arrays.fill(maxima, Float.NEGATIVE_INFINITY);
        float[] sums = new float[rows * Kernels.LANES];
        float[] accumulators = new float[rows * headDim];
        float[] factors = new float[rows];
        for (int repeat = 0; repeat < 2; repeat++) {
            if (half) {
                kernels.scores(queries, 0, rows, headDim, halfKeys, offsets, 16, numBlocks, scores);
            } else {
                kernels.scores(queries, 0, rows, headDim, keys, offsets, 16, numBlocks, scores);
            }
            for (int r = 0; r < rows; r++) {
                factors[r] = kernels.foldScores(scores, r, counts[r], maxima, sums);
            }
            if (half) {
                kernels.accumulate(scores, 0, rows, counts, factors, headDim, halfValues, offsets, accumulators);
            } else {
                kernels.accumulate(scores, 0, rows, counts, factors, headDim, values, offsets, accumulators);
            }
        }
        float[] totals = new float[rows];
        for (int r = 0; r < rows; r++) {
            totals[r] = kernels.sumLanes(sums, r);
        }
        return new float[][] {scores, maxima, sums, accumulators, totals};
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
