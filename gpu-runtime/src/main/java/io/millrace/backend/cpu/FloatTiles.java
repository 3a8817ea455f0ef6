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
    final NumberFormat format() {
        return NumberFormat.FLOAT32;
    }

    @Override
    final void scores(float[] queries, int firstRow, int numRows, float[] scores) {
        kernels.scores(queries, firstRow, numRows, headDim, keys(), keyOffsets, numBlocks(), scores);
    }

    @Override
    final void accumulate(float[] weights, int firstRow, int numRows, int[] counts, float[] openSums) {
        kernels.accumulate(weights, firstRow, numRows, counts, headDim, values(), valueOffsets, openSums);
    }

    @Override
    final boolean areFinite() {
        float[] values = values();
        boolean areFinite = true;
        for (int b = 0; b < numBlocks(); b++) {
            int slots = Math.min(Kernels.BLOCK_SIZE, numSlots() - b * Kernels.BLOCK_SIZE);
            areFinite &= kernels.isFinite(values, valueOffsets[b], slots * headDim);
        }
        return areFinite;
    }

    @Override
    final void copyKeys(int from, OperandWords to, int at, int numWords) {
        to.floats().put(at, keys(), from, numWords);
    }

    @Override
    final void copyValues(int from, OperandWords to, int at, int numWords) {
        to.floats().put(at, values(), from, numWords);
    }
}
