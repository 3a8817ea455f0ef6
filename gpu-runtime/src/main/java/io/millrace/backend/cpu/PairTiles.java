package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;

/** Tiles of pairs of bfloat16 numbers. */
final class PairTiles extends KvTiles {
    /** Added to two bfloat16 numbers without their signs and mantissas, it carries into the sign of one that is not finite. */
    private static final int CARRY = 0x00800080;

    PairTiles(KvPool pool, Kernels kernels, int headDim) {
        super(pool, kernels, headDim);
    }

    @Override
    NumberFormat format() {
        return NumberFormat.BFLOAT16;
    }

    @Override
    void scores(float[] queries, int firstRow, int numRows, float[] scores) {
        kernels.scores(queries, firstRow, numRows, headDim, pool.pairs(layer()), keyOffsets, numBlocks(), scores);
    }

    @Override
    void accumulate(float[] weights, int firstRow, int numRows, int[] counts, float[] openSums) {
        kernels.accumulate(weights, firstRow, numRows, counts, headDim, pool.pairs(layer()), valueOffsets, openSums);
    }

    @Override
    boolean areFinite() {
        int[] pairs = pool.pairs(layer());
        int carries = 0;
        for (int slot = 0; slot < numSlots(); slot += 2) {
            int at = valueOffsets[slot / Kernels.BLOCK_SIZE] + slot % Kernels.BLOCK_SIZE / 2 * headDim;
            int mask = slot + 1 < numSlots() ? 0x7f807f80 : 0x7f80;
            for (int d = 0; d < headDim; d++) {
                carries |= (pairs[at + d] & mask) + CARRY;
            }
        }
        return (carries & 0x80008000) == 0;
    }

    @Override
    void copyKeys(int from, OperandWords to, int at, int numWords) {
        to.ints().put(at, pool.pairs(layer()), from, numWords);
    }

    @Override
    void copyValues(int from, OperandWords to, int at, int numWords) {
        to.ints().put(at, pool.pairs(layer()), from, numWords);
    }
}
