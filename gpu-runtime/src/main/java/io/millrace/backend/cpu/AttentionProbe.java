package io.millrace.backend.cpu;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import java.util.Arrays;
import java.util.Random;

/**
 * Finds the row counts at which the matrix library's products of attention give the kernels' bits: random tiles, of numbers
 * of like and of very unlike magnitudes, by both.
 */
final class AttentionProbe {
    private static final int NUM_ROWS = 64;
    private static final int NUM_BLOCKS = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;
    private static final int MAX_TILES = AttentionProducts.MAX_TILES;

    private final AttentionShapes shapes;
    private final Kernels kernels;

    AttentionProbe(AttentionShapes shapes, Kernels kernels) {
        this.shapes = shapes;
        this.kernels = kernels;
    }

    /** Probes on the calling compute thread; null if no count gives the kernels' bits. */
    RowCounts probe() {
        boolean[] accepted = new boolean[RowCounts.CANDIDATES.length];
        Arrays.fill(accepted, true);
        try (AttentionProducts products = new AttentionProducts(shapes, RowCounts.LARGEST, kernels)) {
            for (boolean isWide : new boolean[] {false, true}) {
                probe(products, isWide, accepted);
            }
        }
        for (boolean isAccepted : accepted) {
            if (isAccepted) {
                return new RowCounts(accepted);
            }
        }
        return null;
    }

    private void probe(AttentionProducts products, boolean isWide, boolean[] accepted) {
        int headDim = shapes.headDim();
        Random random = new Random(headDim);
        int blockInts = Kernels.BLOCK_SIZE * headDim; // keys of a block, then its values, as in the pool
        int[] pairs = new int[MAX_TILES * NUM_BLOCKS * blockInts];
        int[][] keyOffsets = new int[MAX_TILES][NUM_BLOCKS];
        int[][] valueOffsets = new int[MAX_TILES][NUM_BLOCKS];
        for (int b = 0; b < MAX_TILES * NUM_BLOCKS; b++) {
            keyOffsets[b / NUM_BLOCKS][b % NUM_BLOCKS] = b * blockInts;
            valueOffsets[b / NUM_BLOCKS][b % NUM_BLOCKS] = b * blockInts + blockInts / 2;
        }
        for (int i = 0; i < pairs.length; i++) {
            pairs[i] = Bfloat16.pair(number(random, isWide), number(random, isWide));
        }
        float[] queries = new float[NUM_ROWS * headDim];
        float[][] weights = new float[MAX_TILES][NUM_ROWS * Kernels.TILE_SIZE];
        for (int i = 0; i < queries.length; i++) {
            queries[i] = number(random, isWide);
        }
        for (float[] ofTile : weights) {
            for (int i = 0; i < ofTile.length; i++) {
                ofTile[i] = random.nextInt(8) == 0 ? 0f : Math.abs(number(random, isWide));
            }
        }
        float[][] scores = new float[MAX_TILES][NUM_ROWS * Kernels.TILE_SIZE];
        for (int tile = 0; tile < MAX_TILES; tile++) {
            kernels.scores(queries, 0, NUM_ROWS, headDim, pairs, keyOffsets[tile], NUM_BLOCKS, scores[tile]);
        }
        float[][] sums = new float[MAX_TILES + 1][NUM_ROWS * headDim]; // by number of tiles, of one chain
        int[] counts = new int[NUM_ROWS];
        Arrays.fill(counts, Kernels.TILE_SIZE);
        for (int tile = 0; tile < MAX_TILES; tile++) {
            System.arraycopy(sums[tile], 0, sums[tile + 1], 0, sums[tile].length);
            kernels.accumulate(weights[tile], 0, NUM_ROWS, counts, headDim, pairs, valueOffsets[tile], sums[tile + 1]);
        }

        products.putQueries(repeated(queries), RowCounts.LARGEST);
        for (int tile = 0; tile < MAX_TILES; tile++) {
            products.putKeys(tile, pairs, keyOffsets[tile], NUM_BLOCKS);
        }
        float[] allWeights = new float[RowCounts.LARGEST * MAX_TILES * Kernels.TILE_SIZE];
        for (int row = 0; row < RowCounts.LARGEST; row++) {
            for (int tile = 0; tile < MAX_TILES; tile++) {
                int from = row % NUM_ROWS * Kernels.TILE_SIZE;
                int to = (row * MAX_TILES + tile) * Kernels.TILE_SIZE;
                System.arraycopy(weights[tile], from, allWeights, to, Kernels.TILE_SIZE);
            }
        }
        products.putWeights(0, MAX_TILES, 0, RowCounts.LARGEST, allWeights);
        float[] computed = new float[RowCounts.LARGEST * Math.max(headDim, MAX_TILES * Kernels.TILE_SIZE)];
        for (int candidate = 0; candidate < accepted.length; candidate++) {
            int rows = RowCounts.CANDIDATES[candidate];
            for (int tiles = 1; tiles <= MAX_TILES; tiles++) {
                products.multiplyKeysByCandidate(tiles, 0, candidate);
                products.read(0, computed, rows * tiles * Kernels.TILE_SIZE);
                for (int tile = 0; tile < tiles; tile++) {
                    int offset = tile * Kernels.TILE_SIZE;
                    accepted[candidate] &=
                            agrees(scores[tile], Kernels.TILE_SIZE, computed, offset, tiles * Kernels.TILE_SIZE, rows);
                }
            }
        }
        for (int tiles = 1; tiles <= MAX_TILES; tiles++) {
            for (int tile = 0; tile < tiles; tile++) {
                products.putValues(tile, tiles, pairs, valueOffsets[tile], Kernels.TILE_SIZE);
            }
            float[] before = accumulators(random, isWide, sums[tiles]);
            float[] after = before.clone();
            kernels.add(after, 0, sums[tiles], 0, after.length);
            float[] allBefore = repeated(before);
            for (int candidate = 0; candidate < accepted.length; candidate++) {
                int rows = RowCounts.CANDIDATES[candidate];
                products.putAccumulators(allBefore, rows);
                products.multiplyValuesByCandidate(tiles, false, 0, candidate);
                products.readAccumulators(computed, rows);
                accepted[candidate] &= agrees(after, headDim, computed, 0, headDim, rows);
                products.multiplyValuesByCandidate(tiles, true, 0, candidate);
                products.readOpenSums(computed, 0, rows);
                accepted[candidate] &= agrees(sums[tiles], headDim, computed, 0, headDim, rows);
            }
        }
    }

    /** A bfloat16 number of magnitude about 1, or of any from the smallest factor's up. */
    private static float number(Random random, boolean isWide) {
        double value = random.nextGaussian();
        if (isWide) {
            value = Math.scalb(value, random.nextInt(64) - 50);
        }
        return Bfloat16.widen(Bfloat16.roundFactor((float) value));
    }

    /** What sums are added to: also nothing, their opposite, denormal numbers, any magnitude. */
    private static float[] accumulators(Random random, boolean isWide, float[] sums) {
        float[] accumulators = new float[sums.length];
        for (int i = 0; i < sums.length; i++) {
            accumulators[i] = switch (random.nextInt(8)) {
                case 0 -> 0f;
                case 1 -> -sums[i];
                case 2 -> isWide ? Float.intBitsToFloat(random.nextInt(1 << 23)) : 1f;
                default -> (float) Math.scalb(random.nextGaussian(), isWide ? random.nextInt(120) - 100 : 0);
            };
        }
        return accumulators;
    }

    private static float[] repeated(float[] rows) {
        int repeats = RowCounts.LARGEST / NUM_ROWS;
        float[] all = new float[repeats * rows.length];
        for (int i = 0; i < repeats; i++) {
            System.arraycopy(rows, 0, all, i * rows.length, rows.length);
        }
        return all;
    }

    /** Rows of the expected numbers repeat; those computed stand some stride apart. */
    private static boolean agrees(float[] expected, int width, float[] computed, int offset, int stride, int numRows) {
        for (int i = 0; i < numRows * width; i++) {
            float value = computed[offset + i / width * stride + i % width];
            if (Float.floatToRawIntBits(expected[i % expected.length]) != Float.floatToRawIntBits(value)) {
                return false;
            }
        }
        return true;
    }
}
