package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import io.millrace.kernels.ScalarKernels;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The matrix library's products of attention give the kernels' bits, or are not used and say why. */
class AttentionProductsTest {
    private final Kernels kernels = new ScalarKernels();

    @BeforeEach
    void callOneDnnAlone() {
        OneDnn.useOneThreadPerCall();
    }

    @ParameterizedTest
    @ValueSource(ints = {32, 64, 96, 128, 160})
    void productsHaveTheKernelsBits(int headDim) {
        try (AttentionShapes shapes = AttentionShapes.probe(headDim, NumberFormat.BFLOAT16, kernels)) {
            if (OneDnn.instructionSet().equals("avx512_bf16")) {
                assertTrue(shapes.areUsable(), shapes.remark());
            }
            if (!shapes.areUsable()) {
                assertTrue(shapes.remark().contains("own kernels, which take longer"), shapes.remark());
                return;
            }
            for (int seed = 0; seed < 12; seed++) {
                Random random = new Random(1000L * headDim + seed);
                compare(shapes, random, 1 + random.nextInt(200));
            }
        }
    }

    private void compare(AttentionShapes shapes, Random random, int numRows) {
        int headDim = shapes.headDim();
        int firstRow = random.nextInt(numRows);
        int blockInts = Kernels.BLOCK_SIZE * headDim;
        int[] pairs = new int[9 * blockInts];
        for (int i = 0; i < pairs.length; i++) {
            pairs[i] = Bfloat16.pair((float) random.nextGaussian(), (float) random.nextGaussian());
        }
        int[] keyOffsets = new int[4];
        int[] valueOffsets = new int[4];
        for (int b = 0; b < 4; b++) {
            keyOffsets[b] = random.nextInt(9) * blockInts;
            valueOffsets[b] = keyOffsets[b] + blockInts / 2;
        }
        float[] queries = new float[numRows * headDim];
        for (int i = 0; i < queries.length; i++) {
            queries[i] = Bfloat16.widen(Bfloat16.roundFactor((float) random.nextGaussian()));
        }
        int[] counts = new int[numRows];
        Arrays.fill(counts, Kernels.TILE_SIZE);
        float[] maxima = new float[numRows];
        Arrays.fill(maxima, Float.NEGATIVE_INFINITY);
        int rows = numRows - firstRow;
        float[] expected = new float[numRows * Kernels.TILE_SIZE];
        float[] scores = new float[numRows * Kernels.TILE_SIZE];
        float[] expectedSums = new float[numRows * headDim];
        float[] sums = new float[numRows * headDim];
        try (AttentionProducts products = new AttentionProducts(shapes, numRows, kernels)) {
            kernels.scores(queries, firstRow, rows, headDim, pairs, keyOffsets, 4, expected);
            products.putQueries(queries, numRows);
            products.scores(firstRow, rows, pairs, keyOffsets, scores);
            assertSameBits(expected, scores);
            kernels.foldScoresToBfloat16(
                    scores, firstRow, rows, counts, maxima, new float[numRows * Kernels.LANES], new float[numRows]);
            kernels.accumulate(scores, firstRow, rows, counts, headDim, pairs, valueOffsets, expectedSums);
            products.accumulate(scores, firstRow, rows, pairs, valueOffsets, sums);
            assertSameBits(expectedSums, sums);
        }
    }

    @Test
    void headsThatTheLibraryCannotTakeAreLeftToTheKernels() {
        try (AttentionShapes shapes = AttentionShapes.probe(80, NumberFormat.BFLOAT16, kernels)) {
            assertFalse(shapes.areUsable());
            assertTrue(shapes.remark().contains("multiple of 32 elements, the model's have 80"), shapes.remark());
        }
        try (AttentionShapes shapes = AttentionShapes.probe(64, NumberFormat.FLOAT32, kernels)) {
            assertFalse(shapes.areUsable());
            assertEquals("", shapes.remark());
        }
    }

    private static void assertSameBits(float[] expected, float[] actual) {
        for (int i = 0; i < expected.length; i++) {
            assertEquals(Float.floatToRawIntBits(expected[i]), Float.floatToRawIntBits(actual[i]), "element " + i);
        }
    }
}
