package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;

/** Tiles of pairs of bfloat16 numbers. */
final class PairTiles extends KvTiles {
    PairTiles(KvPool pool, Kernels kernels, int headDim) {
        super(pool, kernels, headDim);
    }

    @Override
    boolean isBfloat16() {
        return true;
    }

    @Override
    void scores(float[] queries, int firstRow, int numRows, float[] scores) {
        kernels.scores(queries, firstRow, numRows, headDim, pool.pairs(layer()), keyOffsets, numBlocks(), scores);
    }

    @Override
    void accumulate(float[] weights, int firstRow, int numRows, int[] counts, float[] openSums) {
        kernels.accumulate(weights, firstRow, numRows, counts, headDim, pool.pairs(layer()), valueOffsets, openSums);
    }
}
