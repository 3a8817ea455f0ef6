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
        int[] pairs = new int[Kernels.TILE_SIZE * headDim]; // keys of a block, then its values, as in the pool
        int[] keyOffsets = new int[NUM_BLOCKS];
        int[] valueOffsets = new int[NUM_BLOCKS];
        for (int b = 0; b < NUM_BLOCKS; b++) {
            keyOffsets[b] = b * Kernels.BLOCK_SIZE * headDim;
            valueOffsets[b] = keyOffsets[b] + Kernels.BLOCK_SIZE * headDim / 2;
        }
        for (int i = 0; i < pairs.length; i++) {
            pairs[i] = Bfloat16.pair(number(random, isWide), number(random, isWide));
        }
        float[] queries = new float[NUM_ROWS * headDim];
        float[] weights = new float[NUM_ROWS * Kernels.TILE_SIZE];
        for (int i = 0; i < queries.length; i++) {
            queries[i] = number(random, isWide);
        }
        for (int i = 0; i < weights.length; i++) {
            weights[i] = random.nextInt(8) == 0 ? 0f : Math.abs(number(random, isWide));
        }
        float[] scores = new float[NUM_ROWS * Kernels.TILE_SIZE];
        float[] sums = new float[NUM_ROWS * headDim];
        int[] counts = new int[NUM_ROWS];
        Arrays.fill(counts, Kernels.TILE_SIZE);
        kernels.scores(queries, 0, NUM_ROWS, headDim, pairs, keyOffsets, NUM_BLOCKS, scores);
        kernels.accumulate(weights, 0, NUM_ROWS, counts, headDim, pairs, valueOffsets, sums);

        float[] computed = new float[RowCounts.LARGEST * Math.max(headDim, Kernels.TILE_SIZE)];
        float[] manyQueries = repeated(queries);
        float[] manyWeights = repeated(weights);
        products.putQueries(manyQueries, RowCounts.LARGEST);
        for (int candidate = 0; candidate < accepted.length; candidate++) {
            products.scoresByCandidate(candidate, pairs, keyOffsets, computed);
            accepted[candidate] &= agrees(scores, computed, candidate);
            products.accumulateByCandidate(candidate, manyWeights, pairs, valueOffsets, computed);
            accepted[candidate] &= agrees(sums, computed, candidate);
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

    private static float[] repeated(float[] rows) {
        int repeats = RowCounts.LARGEST / NUM_ROWS;
        float[] all = new float[repeats * rows.length];
        for (int i = 0; i < repeats; i++) {
            System.arraycopy(rows, 0, all, i * rows.length, rows.length);
        }
        return all;
    }

    private static boolean agrees(float[] expected, float[] computed, int candidate) {
        int elements = expected.length / NUM_ROWS * RowCounts.CANDIDATES[candidate];
        for (int i = 0; i < elements; i++) {
            if (Float.floatToRawIntBits(expected[i % expected.length]) != Float.floatToRawIntBits(computed[i])) {
                return false;
            }
        }
        return true;
    }
}
