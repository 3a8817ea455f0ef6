package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;

/** Tiles of float32 numbers. */
class FloatTiles extends KvTiles {
    FloatTiles(KvPool pool, Kernels kernels, int headDim) {
        super(pool, kernels, headDim);
    }

    /** What the offsets of keys are about. */
    float[] keys() {
        return pool.floats(layer());
    }

    /** What the offsets of values are about. */
    float[] values() {
        return pool.floats(layer());
    }

    @Override
    final boolean isBfloat16() {
        return false;
    }

    @Override
    final void scores(float[] queries, int firstRow, int numRows, float[] scores) {
        kernels.scores(queries, firstRow, numRows, headDim, keys(), keyOffsets, numBlocks(), scores);
    }

    @Override
    final void accumulate(float[] weights, int firstRow, int numRows, int[] counts, float[] openSums) {
        kernels.accumulate(weights, firstRow, numRows, counts, headDim, values(), valueOffsets, openSums);
    }
}
