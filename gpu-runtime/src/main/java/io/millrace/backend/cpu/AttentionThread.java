package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.util.Arrays;

/**
 * One compute thread's part in attention: folds the tiles of a piece for all of its rows together, so that a tile's keys
 * and values come from memory once for them.
 */
final class AttentionThread implements AutoCloseable {
    private static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;

    private final Kernels kernels;
    private final KvPool pool;
    private final AttentionState state;
    private final AttentionProducts products; // null where the library cannot
    private final int headDim;
    private final int groupSize;
    private final int queryKeyValueWidth;
    private final float[] queries;
    private final float[] scores;
    private final float[] maxima;
    private final float[] sums;
    private final float[] factors;
    private final float[] accumulators;
    private final float[] tileSums;
    private final int[] counts;
    private final int[] limits;
    private final int[] keyOffsets = new int[BLOCKS_PER_TILE];
    private final int[] valueOffsets = new int[BLOCKS_PER_TILE];
    private final short[] halfScratch;
    private final float[] wideKeyValues; // [blocks of a tile] of keys, then values, where the pool holds 8-bit numbers

    AttentionThread(
            Kernels kernels,
            KvPool pool,
            int maxTokensPerPiece,
            AttentionState state,
            AttentionShapes shapes,
            int headDim,
            int groupSize,
            int queryKeyValueWidth) {
        this.kernels = kernels;
        this.pool = pool;
        this.state = state;
        this.headDim = headDim;
        this.groupSize = groupSize;
        this.queryKeyValueWidth = queryKeyValueWidth;
        int rows = maxTokensPerPiece * groupSize;
        queries = new float[rows * headDim];
        scores = new float[rows * Kernels.TILE_SIZE];
        maxima = new float[rows];
        sums = new float[rows * Kernels.LANES];
        factors = new float[rows];
        accumulators = new float[rows * headDim];
        tileSums = new float[pool.isPaired() ? rows * headDim : 0];
        products = pool.isPaired() && shapes.areUsable() ? new AttentionProducts(shapes, rows, kernels) : null;
        counts = new int[rows];
        limits = new int[maxTokensPerPiece];
        halfScratch = new short[groupSize * headDim];
        wideKeyValues = new float[pool.isInt8() ? 2 * Kernels.TILE_SIZE * headDim : 0];
    }

    /**
     * Runs one piece for one KV head.
     *
     * @param queryKeyValues [tokens][width]: rotated queries, scaled by log2(e) / sqrt(headDim), stand first in a row
     * @param positions of the batch's tokens
     * @param output receives [the plan's rows][query heads × head dim] where the piece ends the folds
     */
    void run(
            AttentionPlan plan,
            int piece,
            int layer,
            int kvHead,
            float[] queryKeyValues,
            int[] positions,
            ActivationBuffer output) {
        int numTokens = plan.numTokens(piece);
        int head = kvHead * groupSize;
        gather(plan, piece, numTokens, head, queryKeyValues, positions);
        if (products != null && numTokens * groupSize >= AttentionProducts.MIN_ROWS) {
            products.putQueries(queries, numTokens * groupSize);
        }
        int[] table = plan.blockTable(piece);
        for (int tile = plan.firstTile(piece); tile < plan.endTile(piece); tile++) {
            foldTile(layer, tile, kvHead, numTokens, table);
        }
        if (plan.isLast(piece)) {
            finish(plan, piece, numTokens, head, output);
        } else {
            for (int i = 0; i < numTokens; i++) {
                int slot = plan.stateSlot(plan.row(piece, i));
                state.save(slot, head, groupSize, maxima, sums, accumulators, i * groupSize);
            }
        }
    }

    private void gather(
            AttentionPlan plan, int piece, int numTokens, int head, float[] queryKeyValues, int[] positions) {
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
                int slot = plan.stateSlot(plan.row(piece, i));
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
        int shortest = Kernels.TILE_SIZE;
        for (int i = firstToken; i < numTokens; i++) {
            int count = Math.min(Kernels.TILE_SIZE, limits[i] - start);
            longest = Math.max(longest, count);
            shortest = Math.min(shortest, count);
            Arrays.fill(counts, i * groupSize, (i + 1) * groupSize, count);
        }
        int numBlocks = (longest + Kernels.BLOCK_SIZE - 1) / Kernels.BLOCK_SIZE;
        for (int b = 0; b < numBlocks; b++) {
            int block = table[tile * BLOCKS_PER_TILE + b];
            keyOffsets[b] = pool.keyOffset(block, kvHead);
            valueOffsets[b] = pool.valueOffset(block, kvHead);
        }
        int row = firstToken * groupSize;
        int rows = (numTokens - firstToken) * groupSize;
        if (pool.isInt8()) {
            widen(layer, tile, kvHead, numBlocks, table);
            foldFloats(wideKeyValues, row, rows, numBlocks);
        } else if (pool.isPaired()) {
            foldPairs(pool.pairs(layer), row, rows, numBlocks, shortest == Kernels.TILE_SIZE);
        } else {
            foldFloats(pool.floats(layer), row, rows, numBlocks);
        }
    }

    /** Where all rows see the whole tile, by products of the library if they are many: the bits are the same. */
    private void foldPairs(int[] kv, int row, int rows, int numBlocks, boolean isWhole) {
        boolean byProducts = isWhole && products != null && rows >= AttentionProducts.MIN_ROWS;
        if (byProducts) {
            products.scores(row, rows, kv, keyOffsets, scores);
        } else {
            kernels.scores(queries, row, rows, headDim, kv, keyOffsets, numBlocks, scores);
        }
        kernels.foldScoresToBfloat16(scores, row, rows, counts, maxima, sums, factors);
        if (byProducts) {
            products.accumulate(scores, row, rows, kv, valueOffsets, tileSums);
        } else {
            kernels.accumulate(scores, row, rows, counts, headDim, kv, valueOffsets, tileSums);
        }
        kernels.foldTileSums(tileSums, row, rows, factors, headDim, accumulators);
    }

    private void foldFloats(float[] kv, int row, int rows, int numBlocks) {
        kernels.scores(queries, row, rows, headDim, kv, keyOffsets, Kernels.BLOCK_SIZE, numBlocks, scores);
        kernels.foldScores(scores, row, rows, counts, maxima, sums, factors);
        kernels.accumulate(scores, row, rows, counts, factors, headDim, kv, valueOffsets, accumulators);
    }

    /** Widens a tile of 8-bit numbers, once for all rows of the piece. */
    private void widen(int layer, int tile, int kvHead, int numBlocks, int[] table) {
        int elements = Kernels.BLOCK_SIZE * headDim;
        for (int b = 0; b < numBlocks; b++) {
            keyOffsets[b] = 2 * b * elements;
            valueOffsets[b] = keyOffsets[b] + elements;
            int block = table[tile * BLOCKS_PER_TILE + b];
            pool.readInt8(layer, block, kvHead, wideKeyValues, keyOffsets[b], wideKeyValues, valueOffsets[b]);
        }
    }

    private void finish(AttentionPlan plan, int piece, int numTokens, int head, ActivationBuffer output) {
        for (int row = 0; row < numTokens * groupSize; row++) {
            kernels.scale(accumulators, row * headDim, 1f / kernels.sumLanes(sums, row), headDim);
        }
        int rowElements = groupSize * headDim;
        for (int i = 0; i < numTokens; i++) {
            output.put(plan.row(piece, i), head * headDim, accumulators, i * rowElements, rowElements, halfScratch);
        }
    }

    @Override
    public void close() {
        if (products != null) {
            products.close();
        }
    }
}
