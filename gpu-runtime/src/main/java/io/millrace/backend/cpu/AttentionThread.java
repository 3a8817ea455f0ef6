package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.util.Arrays;

/**
 * One compute thread's part in attention: folds the tiles of a piece for all of its rows together, so that a tile's keys
 * and values are read, and widened, once for them.
 */
final class AttentionThread {
    private static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;

    /** Up to this many rows the bfloat16 kernels, which widen as they go, beat widening the tile first. */
    private static final int MAX_DIRECT_ROWS = 4;

    private final Kernels kernels;
    private final KvPool pool;
    private final AttentionPlan plan;
    private final AttentionState state;
    private final boolean isHalf;
    private final int headDim;
    private final int groupSize;
    private final int queryKeyValueWidth;
    private final float[] queries;
    private final float[] scores;
    private final float[] maxima;
    private final float[] sums;
    private final float[] factors;
    private final float[] accumulators;
    private final int[] counts;
    private final int[] limits;
    private final int[] blockOffsets = new int[BLOCKS_PER_TILE];
    private final int[] wideOffsets = new int[BLOCKS_PER_TILE];
    private final float[] wideKeys;
    private final float[] wideValues;
    private final short[] halfScratch;

    AttentionThread(
            Kernels kernels,
            KvPool pool,
            AttentionPlan plan,
            AttentionState state,
            int headDim,
            int groupSize,
            int queryKeyValueWidth) {
        this.kernels = kernels;
        this.pool = pool;
        this.plan = plan;
        this.state = state;
        this.isHalf = pool.format() == NumberFormat.BFLOAT16;
        this.headDim = headDim;
        this.groupSize = groupSize;
        this.queryKeyValueWidth = queryKeyValueWidth;
        int rows = plan.maxTokensPerPiece() * groupSize;
        queries = new float[rows * headDim];
        scores = new float[rows * Kernels.TILE_SIZE];
        maxima = new float[rows];
        sums = new float[rows * Kernels.LANES];
        factors = new float[rows];
        accumulators = new float[rows * headDim];
        counts = new int[rows];
        limits = new int[plan.maxTokensPerPiece()];
        wideKeys = new float[isHalf ? Kernels.TILE_SIZE * headDim : 0];
        wideValues = new float[wideKeys.length];
        halfScratch = new short[groupSize * headDim];
        for (int b = 0; b < BLOCKS_PER_TILE; b++) {
            wideOffsets[b] = b * Kernels.BLOCK_SIZE * headDim;
        }
    }

    /**
     * Runs one piece for one KV head.
     *
     * @param queryKeyValues [tokens][width]: rotated queries, scaled by log2(e) / sqrt(headDim), stand first in a row
     * @param positions of the batch's tokens
     * @param output receives [tokens][query heads × head dim] where the piece ends the folds
     */
    void run(int layer, int piece, int kvHead, float[] queryKeyValues, int[] positions, ActivationBuffer output) {
        int numTokens = plan.numTokens(piece);
        int head = kvHead * groupSize;
        gather(piece, numTokens, head, queryKeyValues, positions);
        int[] table = plan.blockTable(piece);
        for (int tile = plan.firstTile(piece); tile < plan.endTile(piece); tile++) {
            foldTile(layer, tile, kvHead, numTokens, table);
        }
        if (plan.isLast(piece)) {
            finish(piece, numTokens, head, output);
        } else {
            for (int i = 0; i < numTokens; i++) {
                int slot = plan.stateSlot(plan.token(piece, i));
                state.save(slot, head, groupSize, maxima, sums, accumulators, i * groupSize);
            }
        }
    }

    private void gather(int piece, int numTokens, int head, float[] queryKeyValues, int[] positions) {
        int rowElements = groupSize * headDim;
        for (int i = 0; i < numTokens; i++) {
            int token = plan.token(piece, i);
            limits[i] = positions[token] + 1;
            System.arraycopy(
                    queryKeyValues, token * queryKeyValueWidth + head * headDim, queries, i * rowElements, rowElements);
        }
        if (plan.firstTile(piece) == 0) {
            int rows = numTokens * groupSize;
            Arrays.fill(maxima, 0, rows, Float.NEGATIVE_INFINITY);
            Arrays.fill(sums, 0, rows * Kernels.LANES, 0f);
            Arrays.fill(accumulators, 0, rows * headDim, 0f);
        } else {
            for (int i = 0; i < numTokens; i++) {
                int slot = plan.stateSlot(plan.token(piece, i));
                state.load(slot, head, groupSize, maxima, sums, accumulators, i * groupSize);
            }
        }
    }

    private void foldTile(int layer, int tile, int kvHead, int numTokens, int[] table) {
        int start = tile * Kernels.TILE_SIZE;
        int firstToken = 0;
        while (limits[firstToken] <= start) {
            firstToken++;
        }
        int longest = 0;
        for (int i = firstToken; i < numTokens; i++) {
            int count = Math.min(Kernels.TILE_SIZE, limits[i] - start);
            longest = Math.max(longest, count);
            Arrays.fill(counts, i * groupSize, (i + 1) * groupSize, count);
        }
        int numBlocks = (longest + Kernels.BLOCK_SIZE - 1) / Kernels.BLOCK_SIZE;
        for (int b = 0; b < numBlocks; b++) {
            blockOffsets[b] = pool.offset(table[tile * BLOCKS_PER_TILE + b], kvHead);
        }
        int firstRow = firstToken * groupSize;
        int numRows = (numTokens - firstToken) * groupSize;
        if (!isHalf) {
            foldFloats(pool.floatKeys(layer), pool.floatValues(layer), blockOffsets, firstRow, numRows, numBlocks);
        } else if (numRows <= MAX_DIRECT_ROWS) {
            foldHalves(pool.halfKeys(layer), pool.halfValues(layer), firstRow, numRows, numBlocks);
        } else {
            int blockElements = Kernels.BLOCK_SIZE * headDim;
            for (int b = 0; b < numBlocks; b++) {
                kernels.fromBfloat16(pool.halfKeys(layer), blockOffsets[b], wideKeys, wideOffsets[b], blockElements);
                kernels.fromBfloat16(
                        pool.halfValues(layer), blockOffsets[b], wideValues, wideOffsets[b], blockElements);
            }
            foldFloats(wideKeys, wideValues, wideOffsets, firstRow, numRows, numBlocks);
        }
    }

    private void foldFloats(float[] keys, float[] values, int[] offsets, int firstRow, int numRows, int numBlocks) {
        kernels.scores(queries, firstRow, numRows, headDim, keys, offsets, Kernels.BLOCK_SIZE, numBlocks, scores);
        for (int row = firstRow; row < firstRow + numRows; row++) {
            factors[row] = kernels.foldScores(scores, row, counts[row], maxima, sums);
        }
        kernels.accumulate(scores, firstRow, numRows, counts, factors, headDim, values, offsets, accumulators);
    }

    private void foldHalves(short[] keys, short[] values, int firstRow, int numRows, int numBlocks) {
        kernels.scores(queries, firstRow, numRows, headDim, keys, blockOffsets, Kernels.BLOCK_SIZE, numBlocks, scores);
        for (int row = firstRow; row < firstRow + numRows; row++) {
            factors[row] = kernels.foldScores(scores, row, counts[row], maxima, sums);
        }
        kernels.accumulate(scores, firstRow, numRows, counts, factors, headDim, values, blockOffsets, accumulators);
    }

    private void finish(int piece, int numTokens, int head, ActivationBuffer output) {
        for (int row = 0; row < numTokens * groupSize; row++) {
            kernels.scale(accumulators, row * headDim, 1f / kernels.sumLanes(sums, row), headDim);
        }
        int rowElements = groupSize * headDim;
        for (int i = 0; i < numTokens; i++) {
            output.put(plan.token(piece, i), head * headDim, accumulators, i * rowElements, rowElements, halfScratch);
        }
    }
}
