package io.millrace.kernels;

import static io.millrace.kernels.Kernels.BLOCK_SIZE;
import static io.millrace.kernels.Kernels.TILE_SIZE;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Attention's two products over float32 keys and values, register-tiled: up to four query rows by four vectors, so that
 * each key or value vector is loaded once for four rows. Written out because the compiler keeps only named locals in
 * registers. Every element is its own chain of multiply-adds, so the tiling does not show in the bits.
 */
final class VectorAttentionFloat {
    private static final VectorSpecies<Float> F = VectorRows.F;
    private static final int L = VectorRows.L;

    private VectorAttentionFloat() {}

    private static FloatVector load(float[] source, int at) {
        return FloatVector.fromArray(F, source, at);
    }

    /** All rows against all blocks of the tile; rows go in groups of at most four, positions in groups of four vectors. */
    static void scores(
            float[] queries,
            int firstRow,
            int numRows,
            int headDim,
            float[] keys,
            int[] blockOffsets,
            int keyStride,
            int numBlocks,
            float[] scores) {
        int numVectors = numBlocks * BLOCK_SIZE / L;
        int row = firstRow;
        int end = firstRow + numRows;
        while (row < end) {
            int group = Math.min(4, end - row);
            int q0 = row * headDim;
            int out = row * TILE_SIZE;
            int v = 0;
            for (; v + 4 <= numVectors; v += 4) {
                int k0 = keyOffset(blockOffsets, v);
                int k1 = keyOffset(blockOffsets, v + 1);
                int k2 = keyOffset(blockOffsets, v + 2);
                int k3 = keyOffset(blockOffsets, v + 3);
                int o0 = out + v * L;
                int o1 = o0 + L;
                int o2 = o1 + L;
                int o3 = o2 + L;
                switch (group) {
                    case 4 -> scores4(keys, k0, k1, k2, k3, keyStride, queries, q0, headDim, scores, o0, o1, o2, o3);
                    case 3 -> scores3(keys, k0, k1, k2, k3, keyStride, queries, q0, headDim, scores, o0, o1, o2, o3);
                    case 2 -> scores2(keys, k0, k1, k2, k3, keyStride, queries, q0, headDim, scores, o0, o1, o2, o3);
                    default -> scores1(keys, k0, k1, k2, k3, keyStride, queries, q0, headDim, scores, o0, o1, o2, o3);
                }
            }
            for (; v < numVectors; v++) {
                scoresOneVector(
                        keys, keyOffset(blockOffsets, v), keyStride, queries, q0, headDim, group, scores, out + v * L);
            }
            row += group;
        }
    }

    private static int keyOffset(int[] blockOffsets, int vector) {
        int position = vector * L;
        return blockOffsets[position / BLOCK_SIZE] + position % BLOCK_SIZE;
    }

    /** One vector of positions, up to four rows: the end of a tile that is not full. */
    private static void scoresOneVector(
            float[] keys, int key, int stride, float[] q, int q0, int headDim, int rows, float[] out, int o) {
        int q1 = rows > 1 ? q0 + headDim : q0;
        int q2 = rows > 2 ? q0 + 2 * headDim : q0;
        int q3 = rows > 3 ? q0 + 3 * headDim : q0;
        FloatVector s0 = FloatVector.zero(F);
        FloatVector s1 = FloatVector.zero(F);
        FloatVector s2 = FloatVector.zero(F);
        FloatVector s3 = FloatVector.zero(F);
        int at = key;
        for (int d = 0; d < headDim; d++, at += stride) {
            FloatVector k = load(keys, at);
            s0 = FloatVector.broadcast(F, q[q0 + d]).fma(k, s0);
            s1 = FloatVector.broadcast(F, q[q1 + d]).fma(k, s1);
            s2 = FloatVector.broadcast(F, q[q2 + d]).fma(k, s2);
            s3 = FloatVector.broadcast(F, q[q3 + d]).fma(k, s3);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s0).intoArray(out, o);
        if (rows > 1) {
            none.add(s1).intoArray(out, o + TILE_SIZE);
        }
        if (rows > 2) {
            none.add(s2).intoArray(out, o + 2 * TILE_SIZE);
        }
        if (rows > 3) {
            none.add(s3).intoArray(out, o + 3 * TILE_SIZE);
        }
    }

    private static void scores4(
            float[] keys,
            int k0,
            int k1,
            int k2,
            int k3,
            int stride,
            float[] q,
            int q0,
            int headDim,
            float[] out,
            int o0,
            int o1,
            int o2,
            int o3) {
        FloatVector s00 = FloatVector.zero(F);
        FloatVector s01 = FloatVector.zero(F);
        FloatVector s02 = FloatVector.zero(F);
        FloatVector s03 = FloatVector.zero(F);
        FloatVector s10 = FloatVector.zero(F);
        FloatVector s11 = FloatVector.zero(F);
        FloatVector s12 = FloatVector.zero(F);
        FloatVector s13 = FloatVector.zero(F);
        FloatVector s20 = FloatVector.zero(F);
        FloatVector s21 = FloatVector.zero(F);
        FloatVector s22 = FloatVector.zero(F);
        FloatVector s23 = FloatVector.zero(F);
        FloatVector s30 = FloatVector.zero(F);
        FloatVector s31 = FloatVector.zero(F);
        FloatVector s32 = FloatVector.zero(F);
        FloatVector s33 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d++, at += stride) {
            FloatVector v0 = load(keys, k0 + at);
            FloatVector v1 = load(keys, k1 + at);
            FloatVector v2 = load(keys, k2 + at);
            FloatVector v3 = load(keys, k3 + at);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, q[q0 + headDim + d]);
            s10 = b1.fma(v0, s10);
            s11 = b1.fma(v1, s11);
            s12 = b1.fma(v2, s12);
            s13 = b1.fma(v3, s13);
            FloatVector b2 = FloatVector.broadcast(F, q[q0 + 2 * headDim + d]);
            s20 = b2.fma(v0, s20);
            s21 = b2.fma(v1, s21);
            s22 = b2.fma(v2, s22);
            s23 = b2.fma(v3, s23);
            FloatVector b3 = FloatVector.broadcast(F, q[q0 + 3 * headDim + d]);
            s30 = b3.fma(v0, s30);
            s31 = b3.fma(v1, s31);
            s32 = b3.fma(v2, s32);
            s33 = b3.fma(v3, s33);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(out, o0);
        none.add(s01).intoArray(out, o1);
        none.add(s02).intoArray(out, o2);
        none.add(s03).intoArray(out, o3);
        none.add(s10).intoArray(out, o0 + 1 * TILE_SIZE);
        none.add(s11).intoArray(out, o1 + 1 * TILE_SIZE);
        none.add(s12).intoArray(out, o2 + 1 * TILE_SIZE);
        none.add(s13).intoArray(out, o3 + 1 * TILE_SIZE);
        none.add(s20).intoArray(out, o0 + 2 * TILE_SIZE);
        none.add(s21).intoArray(out, o1 + 2 * TILE_SIZE);
        none.add(s22).intoArray(out, o2 + 2 * TILE_SIZE);
        none.add(s23).intoArray(out, o3 + 2 * TILE_SIZE);
        none.add(s30).intoArray(out, o0 + 3 * TILE_SIZE);
        none.add(s31).intoArray(out, o1 + 3 * TILE_SIZE);
        none.add(s32).intoArray(out, o2 + 3 * TILE_SIZE);
        none.add(s33).intoArray(out, o3 + 3 * TILE_SIZE);
    }

    private static void scores3(
            float[] keys,
            int k0,
            int k1,
            int k2,
            int k3,
            int stride,
            float[] q,
            int q0,
            int headDim,
            float[] out,
            int o0,
            int o1,
            int o2,
            int o3) {
        FloatVector s00 = FloatVector.zero(F);
        FloatVector s01 = FloatVector.zero(F);
        FloatVector s02 = FloatVector.zero(F);
        FloatVector s03 = FloatVector.zero(F);
        FloatVector s10 = FloatVector.zero(F);
        FloatVector s11 = FloatVector.zero(F);
        FloatVector s12 = FloatVector.zero(F);
        FloatVector s13 = FloatVector.zero(F);
        FloatVector s20 = FloatVector.zero(F);
        FloatVector s21 = FloatVector.zero(F);
        FloatVector s22 = FloatVector.zero(F);
        FloatVector s23 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d++, at += stride) {
            FloatVector v0 = load(keys, k0 + at);
            FloatVector v1 = load(keys, k1 + at);
            FloatVector v2 = load(keys, k2 + at);
            FloatVector v3 = load(keys, k3 + at);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, q[q0 + headDim + d]);
            s10 = b1.fma(v0, s10);
            s11 = b1.fma(v1, s11);
            s12 = b1.fma(v2, s12);
            s13 = b1.fma(v3, s13);
            FloatVector b2 = FloatVector.broadcast(F, q[q0 + 2 * headDim + d]);
            s20 = b2.fma(v0, s20);
            s21 = b2.fma(v1, s21);
            s22 = b2.fma(v2, s22);
            s23 = b2.fma(v3, s23);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(out, o0);
        none.add(s01).intoArray(out, o1);
        none.add(s02).intoArray(out, o2);
        none.add(s03).intoArray(out, o3);
        none.add(s10).intoArray(out, o0 + 1 * TILE_SIZE);
        none.add(s11).intoArray(out, o1 + 1 * TILE_SIZE);
        none.add(s12).intoArray(out, o2 + 1 * TILE_SIZE);
        none.add(s13).intoArray(out, o3 + 1 * TILE_SIZE);
        none.add(s20).intoArray(out, o0 + 2 * TILE_SIZE);
        none.add(s21).intoArray(out, o1 + 2 * TILE_SIZE);
        none.add(s22).intoArray(out, o2 + 2 * TILE_SIZE);
        none.add(s23).intoArray(out, o3 + 2 * TILE_SIZE);
    }

    private static void scores2(
            float[] keys,
            int k0,
            int k1,
            int k2,
            int k3,
            int stride,
            float[] q,
            int q0,
            int headDim,
            float[] out,
            int o0,
            int o1,
            int o2,
            int o3) {
        FloatVector s00 = FloatVector.zero(F);
        FloatVector s01 = FloatVector.zero(F);
        FloatVector s02 = FloatVector.zero(F);
        FloatVector s03 = FloatVector.zero(F);
        FloatVector s10 = FloatVector.zero(F);
        FloatVector s11 = FloatVector.zero(F);
        FloatVector s12 = FloatVector.zero(F);
        FloatVector s13 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d++, at += stride) {
            FloatVector v0 = load(keys, k0 + at);
            FloatVector v1 = load(keys, k1 + at);
            FloatVector v2 = load(keys, k2 + at);
            FloatVector v3 = load(keys, k3 + at);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, q[q0 + headDim + d]);
            s10 = b1.fma(v0, s10);
            s11 = b1.fma(v1, s11);
            s12 = b1.fma(v2, s12);
            s13 = b1.fma(v3, s13);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(out, o0);
        none.add(s01).intoArray(out, o1);
        none.add(s02).intoArray(out, o2);
        none.add(s03).intoArray(out, o3);
        none.add(s10).intoArray(out, o0 + 1 * TILE_SIZE);
        none.add(s11).intoArray(out, o1 + 1 * TILE_SIZE);
        none.add(s12).intoArray(out, o2 + 1 * TILE_SIZE);
        none.add(s13).intoArray(out, o3 + 1 * TILE_SIZE);
    }

    private static void scores1(
            float[] keys,
            int k0,
            int k1,
            int k2,
            int k3,
            int stride,
            float[] q,
            int q0,
            int headDim,
            float[] out,
            int o0,
            int o1,
            int o2,
            int o3) {
        FloatVector s00 = FloatVector.zero(F);
        FloatVector s01 = FloatVector.zero(F);
        FloatVector s02 = FloatVector.zero(F);
        FloatVector s03 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d++, at += stride) {
            FloatVector v0 = load(keys, k0 + at);
            FloatVector v1 = load(keys, k1 + at);
            FloatVector v2 = load(keys, k2 + at);
            FloatVector v3 = load(keys, k3 + at);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(out, o0);
        none.add(s01).intoArray(out, o1);
        none.add(s02).intoArray(out, o2);
        none.add(s03).intoArray(out, o3);
    }

    /**
     * All rows; those of a group of at most four go together as far as the shortest of them reaches, then each alone. The
     * rows' own chains over positions stay the same.
     */
    static void accumulate(
            float[] weights,
            int firstRow,
            int numRows,
            int[] counts,
            float[] factors,
            int headDim,
            float[] values,
            int[] blockOffsets,
            float[] accumulators) {
        int row = firstRow;
        int end = firstRow + numRows;
        while (row < end) {
            int group = Math.min(4, end - row);
            int common = counts[row];
            int w0 = row * TILE_SIZE;
            // In a pass of its own: with these products too, the methods below outgrow what C2 inlines and box vectors.
            for (int r = row; r < row + group; r++) {
                VectorRows.scale(accumulators, r * headDim, factors[r], headDim);
            }
            int column = 0;
            for (; column + 4 * L <= headDim; column += 4 * L) {
                int a0 = row * headDim + column;
                switch (group) {
                    case 4 ->
                        accumulate4(values, blockOffsets, column, headDim, weights, w0, 0, common, accumulators, a0);
                    case 3 ->
                        accumulate3(values, blockOffsets, column, headDim, weights, w0, 0, common, accumulators, a0);
                    case 2 ->
                        accumulate2(values, blockOffsets, column, headDim, weights, w0, 0, common, accumulators, a0);
                    default ->
                        accumulate1(values, blockOffsets, column, headDim, weights, w0, 0, common, accumulators, a0);
                }
                for (int r = 1; r < group; r++) {
                    if (counts[row + r] > common) {
                        accumulate1(
                                values,
                                blockOffsets,
                                column,
                                headDim,
                                weights,
                                w0 + r * TILE_SIZE,
                                common,
                                counts[row + r],
                                accumulators,
                                a0 + r * headDim);
                    }
                }
            }
            for (; column < headDim; column += L) {
                for (int r = row; r < row + group; r++) {
                    accumulateOneVector(
                            values,
                            blockOffsets,
                            column,
                            headDim,
                            weights,
                            r * TILE_SIZE,
                            counts[r],
                            accumulators,
                            r * headDim + column);
                }
            }
            row += group;
        }
    }

    /** One vector of columns of one row: head dimensions that are no multiple of four vectors. */
    private static void accumulateOneVector(
            float[] values,
            int[] blockOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int count,
            float[] acc,
            int a) {
        FloatVector sum = FloatVector.fromArray(F, acc, a);
        for (int p = 0; p < count; p++) {
            int at = blockOffsets[p >> 4] + (p & 15) * headDim + column;
            sum = FloatVector.broadcast(F, w[w0 + p]).fma(load(values, at), sum);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(sum).intoArray(acc, a);
    }

    private static void accumulate4(
            float[] values,
            int[] blockOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int from,
            int to,
            float[] acc,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, acc, a0);
        FloatVector s01 = FloatVector.fromArray(F, acc, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, acc, a0 + 2 * L);
        FloatVector s03 = FloatVector.fromArray(F, acc, a0 + 3 * L);
        FloatVector s10 = FloatVector.fromArray(F, acc, a0 + 1 * headDim);
        FloatVector s11 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + L);
        FloatVector s12 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + 2 * L);
        FloatVector s13 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + 3 * L);
        FloatVector s20 = FloatVector.fromArray(F, acc, a0 + 2 * headDim);
        FloatVector s21 = FloatVector.fromArray(F, acc, a0 + 2 * headDim + L);
        FloatVector s22 = FloatVector.fromArray(F, acc, a0 + 2 * headDim + 2 * L);
        FloatVector s23 = FloatVector.fromArray(F, acc, a0 + 2 * headDim + 3 * L);
        FloatVector s30 = FloatVector.fromArray(F, acc, a0 + 3 * headDim);
        FloatVector s31 = FloatVector.fromArray(F, acc, a0 + 3 * headDim + L);
        FloatVector s32 = FloatVector.fromArray(F, acc, a0 + 3 * headDim + 2 * L);
        FloatVector s33 = FloatVector.fromArray(F, acc, a0 + 3 * headDim + 3 * L);
        for (int p = from; p < to; p++) {
            int at = blockOffsets[p >> 4] + (p & 15) * headDim + column;
            FloatVector v0 = load(values, at);
            FloatVector v1 = load(values, at + L);
            FloatVector v2 = load(values, at + 2 * L);
            FloatVector v3 = load(values, at + 3 * L);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, w[w0 + 1 * TILE_SIZE + p]);
            s10 = b1.fma(v0, s10);
            s11 = b1.fma(v1, s11);
            s12 = b1.fma(v2, s12);
            s13 = b1.fma(v3, s13);
            FloatVector b2 = FloatVector.broadcast(F, w[w0 + 2 * TILE_SIZE + p]);
            s20 = b2.fma(v0, s20);
            s21 = b2.fma(v1, s21);
            s22 = b2.fma(v2, s22);
            s23 = b2.fma(v3, s23);
            FloatVector b3 = FloatVector.broadcast(F, w[w0 + 3 * TILE_SIZE + p]);
            s30 = b3.fma(v0, s30);
            s31 = b3.fma(v1, s31);
            s32 = b3.fma(v2, s32);
            s33 = b3.fma(v3, s33);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(acc, a0);
        none.add(s01).intoArray(acc, a0 + L);
        none.add(s02).intoArray(acc, a0 + 2 * L);
        none.add(s03).intoArray(acc, a0 + 3 * L);
        none.add(s10).intoArray(acc, a0 + 1 * headDim);
        none.add(s11).intoArray(acc, a0 + 1 * headDim + L);
        none.add(s12).intoArray(acc, a0 + 1 * headDim + 2 * L);
        none.add(s13).intoArray(acc, a0 + 1 * headDim + 3 * L);
        none.add(s20).intoArray(acc, a0 + 2 * headDim);
        none.add(s21).intoArray(acc, a0 + 2 * headDim + L);
        none.add(s22).intoArray(acc, a0 + 2 * headDim + 2 * L);
        none.add(s23).intoArray(acc, a0 + 2 * headDim + 3 * L);
        none.add(s30).intoArray(acc, a0 + 3 * headDim);
        none.add(s31).intoArray(acc, a0 + 3 * headDim + L);
        none.add(s32).intoArray(acc, a0 + 3 * headDim + 2 * L);
        none.add(s33).intoArray(acc, a0 + 3 * headDim + 3 * L);
    }

    private static void accumulate3(
            float[] values,
            int[] blockOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int from,
            int to,
            float[] acc,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, acc, a0);
        FloatVector s01 = FloatVector.fromArray(F, acc, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, acc, a0 + 2 * L);
        FloatVector s03 = FloatVector.fromArray(F, acc, a0 + 3 * L);
        FloatVector s10 = FloatVector.fromArray(F, acc, a0 + 1 * headDim);
        FloatVector s11 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + L);
        FloatVector s12 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + 2 * L);
        FloatVector s13 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + 3 * L);
        FloatVector s20 = FloatVector.fromArray(F, acc, a0 + 2 * headDim);
        FloatVector s21 = FloatVector.fromArray(F, acc, a0 + 2 * headDim + L);
        FloatVector s22 = FloatVector.fromArray(F, acc, a0 + 2 * headDim + 2 * L);
        FloatVector s23 = FloatVector.fromArray(F, acc, a0 + 2 * headDim + 3 * L);
        for (int p = from; p < to; p++) {
            int at = blockOffsets[p >> 4] + (p & 15) * headDim + column;
            FloatVector v0 = load(values, at);
            FloatVector v1 = load(values, at + L);
            FloatVector v2 = load(values, at + 2 * L);
            FloatVector v3 = load(values, at + 3 * L);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, w[w0 + 1 * TILE_SIZE + p]);
            s10 = b1.fma(v0, s10);
            s11 = b1.fma(v1, s11);
            s12 = b1.fma(v2, s12);
            s13 = b1.fma(v3, s13);
            FloatVector b2 = FloatVector.broadcast(F, w[w0 + 2 * TILE_SIZE + p]);
            s20 = b2.fma(v0, s20);
            s21 = b2.fma(v1, s21);
            s22 = b2.fma(v2, s22);
            s23 = b2.fma(v3, s23);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(acc, a0);
        none.add(s01).intoArray(acc, a0 + L);
        none.add(s02).intoArray(acc, a0 + 2 * L);
        none.add(s03).intoArray(acc, a0 + 3 * L);
        none.add(s10).intoArray(acc, a0 + 1 * headDim);
        none.add(s11).intoArray(acc, a0 + 1 * headDim + L);
        none.add(s12).intoArray(acc, a0 + 1 * headDim + 2 * L);
        none.add(s13).intoArray(acc, a0 + 1 * headDim + 3 * L);
        none.add(s20).intoArray(acc, a0 + 2 * headDim);
        none.add(s21).intoArray(acc, a0 + 2 * headDim + L);
        none.add(s22).intoArray(acc, a0 + 2 * headDim + 2 * L);
        none.add(s23).intoArray(acc, a0 + 2 * headDim + 3 * L);
    }

    private static void accumulate2(
            float[] values,
            int[] blockOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int from,
            int to,
            float[] acc,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, acc, a0);
        FloatVector s01 = FloatVector.fromArray(F, acc, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, acc, a0 + 2 * L);
        FloatVector s03 = FloatVector.fromArray(F, acc, a0 + 3 * L);
        FloatVector s10 = FloatVector.fromArray(F, acc, a0 + 1 * headDim);
        FloatVector s11 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + L);
        FloatVector s12 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + 2 * L);
        FloatVector s13 = FloatVector.fromArray(F, acc, a0 + 1 * headDim + 3 * L);
        for (int p = from; p < to; p++) {
            int at = blockOffsets[p >> 4] + (p & 15) * headDim + column;
            FloatVector v0 = load(values, at);
            FloatVector v1 = load(values, at + L);
            FloatVector v2 = load(values, at + 2 * L);
            FloatVector v3 = load(values, at + 3 * L);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, w[w0 + 1 * TILE_SIZE + p]);
            s10 = b1.fma(v0, s10);
            s11 = b1.fma(v1, s11);
            s12 = b1.fma(v2, s12);
            s13 = b1.fma(v3, s13);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(acc, a0);
        none.add(s01).intoArray(acc, a0 + L);
        none.add(s02).intoArray(acc, a0 + 2 * L);
        none.add(s03).intoArray(acc, a0 + 3 * L);
        none.add(s10).intoArray(acc, a0 + 1 * headDim);
        none.add(s11).intoArray(acc, a0 + 1 * headDim + L);
        none.add(s12).intoArray(acc, a0 + 1 * headDim + 2 * L);
        none.add(s13).intoArray(acc, a0 + 1 * headDim + 3 * L);
    }

    private static void accumulate1(
            float[] values,
            int[] blockOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int from,
            int to,
            float[] acc,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, acc, a0);
        FloatVector s01 = FloatVector.fromArray(F, acc, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, acc, a0 + 2 * L);
        FloatVector s03 = FloatVector.fromArray(F, acc, a0 + 3 * L);
        for (int p = from; p < to; p++) {
            int at = blockOffsets[p >> 4] + (p & 15) * headDim + column;
            FloatVector v0 = load(values, at);
            FloatVector v1 = load(values, at + L);
            FloatVector v2 = load(values, at + 2 * L);
            FloatVector v3 = load(values, at + 3 * L);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(acc, a0);
        none.add(s01).intoArray(acc, a0 + L);
        none.add(s02).intoArray(acc, a0 + 2 * L);
        none.add(s03).intoArray(acc, a0 + 3 * L);
    }
}
