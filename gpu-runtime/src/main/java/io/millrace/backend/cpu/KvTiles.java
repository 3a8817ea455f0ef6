package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;

/** A pool's keys and values as the kernels of attention read them: one tile of one KV head at a time. Used by its thread only. */
abstract class KvTiles {
    static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;

    final Kernels kernels;
    final KvPool pool;
    final int headDim;
    final int[] keyOffsets = new int[BLOCKS_PER_TILE]; // of the tile's blocks, in what keys and values are read from
    final int[] valueOffsets = new int[BLOCKS_PER_TILE];
    private int layer;
    private int numSlots;
    private int numBlocks;

    KvTiles(KvPool pool, Kernels kernels, int headDim) {
        this.pool = pool;
        this.kernels = kernels;
        this.headDim = headDim;
    }

    static KvTiles of(KvPool pool, Kernels kernels, int headDim) {
        if (pool.isPaired()) {
            return new PairTiles(pool, kernels, headDim);
        }
        return pool.isInt8() ? new Int8Tiles(pool, kernels, headDim) : new FloatTiles(pool, kernels, headDim);
    }

    /** Turns to a tile up to a slot; what follows is about its blocks so far. */
    void find(int layer, int tile, int numSlots, int kvHead, int[] table) {
        this.layer = layer;
        this.numSlots = numSlots;
        numBlocks = (numSlots + Kernels.BLOCK_SIZE - 1) / Kernels.BLOCK_SIZE;
        for (int b = 0; b < numBlocks; b++) {
            findBlock(b, table[tile * BLOCKS_PER_TILE + b], kvHead);
        }
    }

    void findBlock(int b, int block, int kvHead) {
        keyOffsets[b] = pool.keyOffset(block, kvHead);
        valueOffsets[b] = pool.valueOffset(block, kvHead);
    }

    int layer() {
        return layer;
    }

    int numSlots() {
        return numSlots;
    }

    int numBlocks() {
        return numBlocks;
    }

    /** Whether attention multiplies bfloat16 numbers: then queries and weights are rounded, too. */
    abstract boolean isBfloat16();

    /** {@link Kernels#scores} of rows with the tile. */
    abstract void scores(float[] queries, int firstRow, int numRows, float[] scores);

    /** {@link Kernels#accumulate} of rows' weights with the tile. */
    abstract void accumulate(float[] weights, int firstRow, int numRows, int[] counts, float[] openSums);
}
