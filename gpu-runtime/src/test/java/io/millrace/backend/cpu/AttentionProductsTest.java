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
                compare(shapes, random, 1 + random.nextInt(200), 1 << seed % 3);
            }
        }
    }

    /** Groups of whole tiles, then, as another thread would go on, a tile of which rows see less and less. */
    private void compare(AttentionShapes shapes, Random random, int numRows, int numTiles) {
        int headDim = shapes.headDim();
        Tiles tiles = new Tiles(headDim, random);
        Folded expected = new Folded(numRows, headDim);
        Folded actual = new Folded(numRows, headDim);
        float[] queries = new float[numRows * headDim];
        for (int i = 0; i < queries.length; i++) {
            queries[i] = Bfloat16.widen(Bfloat16.roundFactor((float) random.nextGaussian()));
        }
        try (AttentionProducts products = new AttentionProducts(shapes, numRows, kernels)) {
            products.putQueries(queries, numRows);
            products.clearAccumulators();
            for (int size : new int[] {numTiles, 2, numTiles}) {
                compareWhole(products, tiles, size, queries, expected, actual);
            }
        }
        try (AttentionProducts products = new AttentionProducts(shapes, numRows, kernels)) {
            products.putQueries(queries, numRows);
            products.putAccumulators(actual.accumulators, numRows);
            int firstRow = random.nextInt(numRows);
            int numSlots = 1 + random.nextInt(Kernels.TILE_SIZE);
            int[] counts = new int[numRows];
            for (int r = 0; r < numRows; r++) {
                counts[r] = 1 + random.nextInt(numSlots);
            }
            Arrays.sort(counts);
            int[] keyOffsets = tiles.randomKeyOffsets();
            tiles.poisonBehind(keyOffsets, numSlots);
            assertTrue(products.areFinite(tiles.pairs, tiles.valueOffsets(keyOffsets), numSlots));
            expected.byKernels(kernels, tiles, keyOffsets, queries, firstRow, counts);
            actual.byProducts(kernels, products, tiles, new int[][] {keyOffsets}, firstRow, counts, numSlots);
            expected.assertSameBits(actual);

            int slot = random.nextInt(numSlots);
            tiles.setValue(keyOffsets, slot, random.nextInt(headDim), slot % 3 == 0 ? Float.NaN : -1f / 0f);
            assertFalse(products.areFinite(tiles.pairs, tiles.valueOffsets(keyOffsets), numSlots));
        }
    }

    private void compareWhole(
            AttentionProducts products, Tiles tiles, int numTiles, float[] queries, Folded expected, Folded actual) {
        int[] counts = new int[expected.maxima.length];
        Arrays.fill(counts, Kernels.TILE_SIZE);
        int[][] group = new int[numTiles][];
        for (int t = 0; t < numTiles; t++) {
            group[t] = tiles.randomKeyOffsets();
            expected.byKernels(kernels, tiles, group[t], queries, 0, counts);
        }
        actual.byProducts(kernels, products, tiles, group, 0, null, Kernels.TILE_SIZE);
        expected.assertSameBits(actual);
    }

    /** Blocks of keys and values as in the pool. */
    private static final class Tiles {
        private final int headDim;
        private final Random random;
        private final int blockInts;
        private final int[] pairs;

        Tiles(int headDim, Random random) {
            this.headDim = headDim;
            this.random = random;
            this.blockInts = Kernels.BLOCK_SIZE * headDim;
            this.pairs = new int[24 * blockInts];
            for (int i = 0; i < pairs.length; i++) {
                pairs[i] = Bfloat16.pair((float) random.nextGaussian(), (float) random.nextGaussian());
            }
        }

        /** Of four blocks. */
        int[] randomKeyOffsets() {
            return random.ints(0, 24)
                    .distinct()
                    .limit(4)
                    .map(block -> block * blockInts)
                    .toArray();
        }

        int[] valueOffsets(int[] keyOffsets) {
            return Arrays.stream(keyOffsets)
                    .map(offset -> offset + blockInts / 2)
                    .toArray();
        }

        /** Whatever stands behind the last slot must not count. */
        void poisonBehind(int[] keyOffsets, int numSlots) {
            for (int slot = numSlots; slot < Kernels.TILE_SIZE; slot++) {
                setValue(keyOffsets, slot, random.nextInt(headDim), Float.NaN);
            }
        }

        void setValue(int[] keyOffsets, int slot, int d, float value) {
            int at = valueOffsets(keyOffsets)[slot / 16] + slot % 16 / 2 * headDim + d;
            int half = Float.floatToRawIntBits(value) >>> 16;
            pairs[at] = slot % 2 == 0 ? pairs[at] & 0xffff0000 | half : pairs[at] & 0xffff | half << 16;
        }
    }

    /** Rows' state of the online softmax. */
    private static final class Folded {
        private final int headDim;
        private final float[] maxima;
        private final float[] sums;
        private final float[] accumulators;

        Folded(int numRows, int headDim) {
            this.headDim = headDim;
            maxima = new float[numRows];
            Arrays.fill(maxima, Float.NEGATIVE_INFINITY);
            sums = new float[numRows * Kernels.LANES];
            accumulators = new float[numRows * headDim];
        }

        void byKernels(Kernels kernels, Tiles tiles, int[] keyOffsets, float[] queries, int firstRow, int[] counts) {
            int rows = maxima.length - firstRow;
            int tile = Kernels.TILE_SIZE;
            float[] scores = new float[maxima.length * tile];
            float[] tileSums = new float[accumulators.length];
            float[] factors = new float[maxima.length];
            int[] valueOffsets = tiles.valueOffsets(keyOffsets);
            kernels.scores(queries, firstRow, rows, headDim, tiles.pairs, keyOffsets, 4, scores);
            kernels.foldScoresToBfloat16(scores, firstRow * tile, tile, firstRow, rows, counts, maxima, sums, factors);
            kernels.accumulate(scores, firstRow, rows, counts, headDim, tiles.pairs, valueOffsets, tileSums);
            kernels.foldTileSums(tileSums, firstRow * headDim, firstRow, rows, factors, headDim, accumulators);
        }

        /**
         * In the order of {@link AttentionThread}.
         *
         * @param counts null where all rows see all of the tiles
         */
        void byProducts(
                Kernels kernels,
                AttentionProducts products,
                Tiles tiles,
                int[][] keyOffsets,
                int firstRow,
                int[] counts,
                int numSlots) {
            int end = maxima.length;
            int numTiles = keyOffsets.length;
            int width = numTiles * Kernels.TILE_SIZE;
            float[] read = new float[RowCounts.LARGEST * width];
            float[][] factors = new float[numTiles][end];
            for (int t = 0; t < numTiles; t++) {
                products.putKeys(t, tiles.pairs, keyOffsets[t], (numSlots + 15) / 16);
            }
            int done;
            for (int row = firstRow; row < end; row += done) {
                done = products.multiplyKeys(numTiles, row, end - row);
                products.read(0, read, done * width);
                if (counts == null) {
                    kernels.foldTilesToBfloat16(read, numTiles, row, done, maxima, sums, factors);
                } else {
                    kernels.foldScoresToBfloat16(read, 0, width, row, done, counts, maxima, sums, factors[0]);
                }
                products.putWeights(numTiles, row, done, read);
            }
            for (int t = 0; t < numTiles; t++) {
                products.putValues(tiles.pairs, tiles.valueOffsets(keyOffsets[t]), numSlots);
                products.rescale(factors[t], firstRow, end - firstRow);
                for (int row = firstRow; row < end; row += done) {
                    done = products.multiplyValues(t, row, end - row);
                }
                products.beginAccumulators();
            }
            products.readAccumulators(accumulators, end);
        }

        void assertSameBits(Folded other) {
            AttentionProductsTest.assertSameBits(maxima, other.maxima);
            AttentionProductsTest.assertSameBits(sums, other.sums);
            AttentionProductsTest.assertSameBits(accumulators, other.accumulators);
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
