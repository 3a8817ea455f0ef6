package io.millrace.kernels;

import static io.millrace.kernels.Kernels.BLOCK_SIZE;
import static io.millrace.kernels.Kernels.TILE_SIZE;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Attention's two products over float32 keys and values, register-tiled as those over pairs are (see
 * {@link VectorAttentionBfloat16}): up to three query rows by four vectors, and up to six where there are 32 registers, so that
 * each key or value vector is loaded once for all of them. Every element is its own chain of multiply-adds, so the tiling does not
 * show in the bits.
 */
final class VectorAttentionFloat {
    private static final VectorSpecies<Float> F = VectorRows.F;
    private static final int L = VectorRows.L;
    private static final boolean HAS_32_REGISTERS = L == 16; // as all CPUs with vectors of this width have

    private VectorAttentionFloat() {}

    /** How many of the rows left go together in scores: of six, whose queries' addresses take registers too, C2 spills some. */
    private static int groupOfScores(int rowsLeft) {
        return HAS_32_REGISTERS && (rowsLeft == 5 || rowsLeft >= 8) ? 5 : VectorRows.group(rowsLeft);
    }

    private static int groupOfSums(int rowsLeft) {
        return HAS_32_REGISTERS && rowsLeft >= 6 && rowsLeft != 7 ? 6 : VectorRows.group(rowsLeft);
    }

    /** All rows against all blocks of the tile; positions go in groups of four vectors. */
    static void scores(
            float[] queries,
            int firstRow,
            int numRows,
            int headDim,
            float[] keys,
            int[] keyOffsets,
            int numBlocks,
            float[] scores) {
        int numVectors = numBlocks * BLOCK_SIZE / L;
        int end = firstRow + numRows;
        int group;
        for (int row = firstRow; row < end; row += group) {
            group = groupOfScores(end - row);
            int q = row * headDim;
            int out = row * TILE_SIZE;
            int v = 0;
            for (; v + 4 <= numVectors; v += 4) {
                int k0 = VectorRows.keyOffset(keyOffsets, v);
                int k1 = VectorRows.keyOffset(keyOffsets, v + 1);
                int k2 = VectorRows.keyOffset(keyOffsets, v + 2);
                int k3 = VectorRows.keyOffset(keyOffsets, v + 3);
                int o = out + v * L;
                switch (group) {
                    case 5 -> scores5(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                    case 3 -> scores3(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                    case 2 -> scores2(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                    default -> scores1(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                }
            }
            for (; v < numVectors; v++) {
                int key = VectorRows.keyOffset(keyOffsets, v);
                int o = out + v * L;
                for (int r = 0; r < group; r += 3) {
                    scoresOneVector(
                            keys,
                            key,
                            queries,
                            q + r * headDim,
                            headDim,
                            Math.min(3, group - r),
                            scores,
                            o + r * TILE_SIZE);
                }
            }
        }
    }

    /** One vector of positions, up to three rows: the end of a tile that is not full. */
    private static void scoresOneVector(
            float[] keys, int key, float[] q, int q0, int headDim, int rows, float[] out, int o) {
        int q1 = rows > 1 ? q0 + headDim : q0;
        int q2 = rows > 2 ? q0 + 2 * headDim : q0;
        FloatVector s0 = FloatVector.zero(F);
        FloatVector s1 = FloatVector.zero(F);
        FloatVector s2 = FloatVector.zero(F);
        int at = key;
        for (int d = 0; d < headDim; d++, at += BLOCK_SIZE) {
            FloatVector k = FloatVector.fromArray(F, keys, at);
            s0 = FloatVector.broadcast(F, q[q0 + d]).fma(k, s0);
            s1 = FloatVector.broadcast(F, q[q1 + d]).fma(k, s1);
            s2 = FloatVector.broadcast(F, q[q2 + d]).fma(k, s2);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s0).intoArray(out, o);
        if (rows > 1) {
            none.add(s1).intoArray(out, o + TILE_SIZE);
        }
        if (rows > 2) {
            none.add(s2).intoArray(out, o + 2 * TILE_SIZE);
        }
    }

    private static void scores5(
            float[] keys, int k0, int k1, int k2, int k3, float[] q, int q0, int headDim, float[] out, int o) {
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
        FloatVector s40 = FloatVector.zero(F);
        FloatVector s41 = FloatVector.zero(F);
        FloatVector s42 = FloatVector.zero(F);
        FloatVector s43 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d++, at += BLOCK_SIZE) {
            FloatVector v0 = FloatVector.fromArray(F, keys, k0 + at);
            FloatVector v1 = FloatVector.fromArray(F, keys, k1 + at);
            FloatVector v2 = FloatVector.fromArray(F, keys, k2 + at);
            FloatVector v3 = FloatVector.fromArray(F, keys, k3 + at);
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
            FloatVector b4 = FloatVector.broadcast(F, q[q0 + 4 * headDim + d]);
            s40 = b4.fma(v0, s40);
            s41 = b4.fma(v1, s41);
            s42 = b4.fma(v2, s42);
            s43 = b4.fma(v3, s43);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(out, o);
        none.add(s01).intoArray(out, o + L);
        none.add(s02).intoArray(out, o + 2 * L);
        none.add(s03).intoArray(out, o + 3 * L);
        none.add(s10).intoArray(out, o + TILE_SIZE);
        none.add(s11).intoArray(out, o + TILE_SIZE + L);
        none.add(s12).intoArray(out, o + TILE_SIZE + 2 * L);
        none.add(s13).intoArray(out, o + TILE_SIZE + 3 * L);
        none.add(s20).intoArray(out, o + 2 * TILE_SIZE);
        none.add(s21).intoArray(out, o + 2 * TILE_SIZE + L);
        none.add(s22).intoArray(out, o + 2 * TILE_SIZE + 2 * L);
        none.add(s23).intoArray(out, o + 2 * TILE_SIZE + 3 * L);
        none.add(s30).intoArray(out, o + 3 * TILE_SIZE);
        none.add(s31).intoArray(out, o + 3 * TILE_SIZE + L);
        none.add(s32).intoArray(out, o + 3 * TILE_SIZE + 2 * L);
        none.add(s33).intoArray(out, o + 3 * TILE_SIZE + 3 * L);
        none.add(s40).intoArray(out, o + 4 * TILE_SIZE);
        none.add(s41).intoArray(out, o + 4 * TILE_SIZE + L);
        none.add(s42).intoArray(out, o + 4 * TILE_SIZE + 2 * L);
        none.add(s43).intoArray(out, o + 4 * TILE_SIZE + 3 * L);
    }

    private static void scores3(
            float[] keys, int k0, int k1, int k2, int k3, float[] q, int q0, int headDim, float[] out, int o) {
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
        for (int d = 0; d < headDim; d++, at += BLOCK_SIZE) {
            FloatVector v0 = FloatVector.fromArray(F, keys, k0 + at);
            FloatVector v1 = FloatVector.fromArray(F, keys, k1 + at);
            FloatVector v2 = FloatVector.fromArray(F, keys, k2 + at);
            FloatVector v3 = FloatVector.fromArray(F, keys, k3 + at);
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
        none.add(s00).intoArray(out, o);
        none.add(s01).intoArray(out, o + L);
        none.add(s02).intoArray(out, o + 2 * L);
        none.add(s03).intoArray(out, o + 3 * L);
        none.add(s10).intoArray(out, o + TILE_SIZE);
        none.add(s11).intoArray(out, o + TILE_SIZE + L);
        none.add(s12).intoArray(out, o + TILE_SIZE + 2 * L);
        none.add(s13).intoArray(out, o + TILE_SIZE + 3 * L);
        none.add(s20).intoArray(out, o + 2 * TILE_SIZE);
        none.add(s21).intoArray(out, o + 2 * TILE_SIZE + L);
        none.add(s22).intoArray(out, o + 2 * TILE_SIZE + 2 * L);
        none.add(s23).intoArray(out, o + 2 * TILE_SIZE + 3 * L);
    }

    private static void scores2(
            float[] keys, int k0, int k1, int k2, int k3, float[] q, int q0, int headDim, float[] out, int o) {
        FloatVector s00 = FloatVector.zero(F);
        FloatVector s01 = FloatVector.zero(F);
        FloatVector s02 = FloatVector.zero(F);
        FloatVector s03 = FloatVector.zero(F);
        FloatVector s10 = FloatVector.zero(F);
        FloatVector s11 = FloatVector.zero(F);
        FloatVector s12 = FloatVector.zero(F);
        FloatVector s13 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d++, at += BLOCK_SIZE) {
            FloatVector v0 = FloatVector.fromArray(F, keys, k0 + at);
            FloatVector v1 = FloatVector.fromArray(F, keys, k1 + at);
            FloatVector v2 = FloatVector.fromArray(F, keys, k2 + at);
            FloatVector v3 = FloatVector.fromArray(F, keys, k3 + at);
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
        none.add(s00).intoArray(out, o);
        none.add(s01).intoArray(out, o + L);
        none.add(s02).intoArray(out, o + 2 * L);
        none.add(s03).intoArray(out, o + 3 * L);
        none.add(s10).intoArray(out, o + TILE_SIZE);
        none.add(s11).intoArray(out, o + TILE_SIZE + L);
        none.add(s12).intoArray(out, o + TILE_SIZE + 2 * L);
        none.add(s13).intoArray(out, o + TILE_SIZE + 3 * L);
    }

    private static void scores1(
            float[] keys, int k0, int k1, int k2, int k3, float[] q, int q0, int headDim, float[] out, int o) {
        FloatVector s00 = FloatVector.zero(F);
        FloatVector s01 = FloatVector.zero(F);
        FloatVector s02 = FloatVector.zero(F);
        FloatVector s03 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d++, at += BLOCK_SIZE) {
            FloatVector v0 = FloatVector.fromArray(F, keys, k0 + at);
            FloatVector v1 = FloatVector.fromArray(F, keys, k1 + at);
            FloatVector v2 = FloatVector.fromArray(F, keys, k2 + at);
            FloatVector v3 = FloatVector.fromArray(F, keys, k3 + at);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(out, o);
        none.add(s01).intoArray(out, o + L);
        none.add(s02).intoArray(out, o + 2 * L);
        none.add(s03).intoArray(out, o + 3 * L);
    }

    /**
     * All rows; those of a group go together as far as the shortest of them reaches, then each alone. The rows' own chains
     * over positions stay the same.
     *
     * @param headDim a multiple of {@link Kernels#LANES}
     */
    static void accumulate(
            float[] weights,
            int firstRow,
            int numRows,
            int[] counts,
            int headDim,
            float[] values,
            int[] valueOffsets,
            float[] openSums) {
        int end = firstRow + numRows;
        int group;
        for (int row = firstRow; row < end; row += group) {
            group = groupOfSums(end - row);
            int common = counts[row];
            int w = row * TILE_SIZE;
            int a = row * headDim;
            int d = 0;
            for (; d + 4 * L <= headDim; d += 4 * L) {
                switch (group) {
                    case 6 -> accumulate6(values, valueOffsets, d, headDim, weights, w, common, openSums, a + d);
                    case 3 -> accumulate3(values, valueOffsets, d, headDim, weights, w, common, openSums, a + d);
                    case 2 -> accumulate2(values, valueOffsets, d, headDim, weights, w, common, openSums, a + d);
                    default -> accumulate1(values, valueOffsets, d, headDim, weights, w, 0, common, openSums, a + d);
                }
                for (int r = 1; r < group; r++) {
                    int to = counts[row + r];
                    if (to > common) {
                        int of = a + r * headDim + d;
                        accumulate1(
                                values, valueOffsets, d, headDim, weights, w + r * TILE_SIZE, common, to, openSums, of);
                    }
                }
            }
            for (; d < headDim; d += L) {
                for (int r = row; r < row + group; r++) {
                    int of = r * headDim + d;
                    accumulateOneVector(
                            values, valueOffsets, d, headDim, weights, r * TILE_SIZE, counts[r], openSums, of);
                }
            }
        }
    }

    /** One vector of columns of one row: head dimensions that are no multiple of four vectors. */
    private static void accumulateOneVector(
            float[] values,
            int[] valueOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int count,
            float[] sums,
            int a) {
        FloatVector sum = FloatVector.fromArray(F, sums, a);
        for (int p = 0; p < count; p++) {
            int at = valueOffsets[p >> 4] + (p & 15) * headDim + column;
            sum = FloatVector.broadcast(F, w[w0 + p]).fma(FloatVector.fromArray(F, values, at), sum);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(sum).intoArray(sums, a);
    }

    private static void accumulate6(
            float[] values,
            int[] valueOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int to,
            float[] sums,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, sums, a0);
        FloatVector s01 = FloatVector.fromArray(F, sums, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, sums, a0 + 2 * L);
        FloatVector s03 = FloatVector.fromArray(F, sums, a0 + 3 * L);
        FloatVector s10 = FloatVector.fromArray(F, sums, a0 + headDim);
        FloatVector s11 = FloatVector.fromArray(F, sums, a0 + headDim + L);
        FloatVector s12 = FloatVector.fromArray(F, sums, a0 + headDim + 2 * L);
        FloatVector s13 = FloatVector.fromArray(F, sums, a0 + headDim + 3 * L);
        FloatVector s20 = FloatVector.fromArray(F, sums, a0 + 2 * headDim);
        FloatVector s21 = FloatVector.fromArray(F, sums, a0 + 2 * headDim + L);
        FloatVector s22 = FloatVector.fromArray(F, sums, a0 + 2 * headDim + 2 * L);
        FloatVector s23 = FloatVector.fromArray(F, sums, a0 + 2 * headDim + 3 * L);
        FloatVector s30 = FloatVector.fromArray(F, sums, a0 + 3 * headDim);
        FloatVector s31 = FloatVector.fromArray(F, sums, a0 + 3 * headDim + L);
        FloatVector s32 = FloatVector.fromArray(F, sums, a0 + 3 * headDim + 2 * L);
        FloatVector s33 = FloatVector.fromArray(F, sums, a0 + 3 * headDim + 3 * L);
        FloatVector s40 = FloatVector.fromArray(F, sums, a0 + 4 * headDim);
        FloatVector s41 = FloatVector.fromArray(F, sums, a0 + 4 * headDim + L);
        FloatVector s42 = FloatVector.fromArray(F, sums, a0 + 4 * headDim + 2 * L);
        FloatVector s43 = FloatVector.fromArray(F, sums, a0 + 4 * headDim + 3 * L);
        FloatVector s50 = FloatVector.fromArray(F, sums, a0 + 5 * headDim);
        FloatVector s51 = FloatVector.fromArray(F, sums, a0 + 5 * headDim + L);
        FloatVector s52 = FloatVector.fromArray(F, sums, a0 + 5 * headDim + 2 * L);
        FloatVector s53 = FloatVector.fromArray(F, sums, a0 + 5 * headDim + 3 * L);
        int at = 0;
        for (int p = 0; p < to; p++, at += headDim) {
            if ((p & 15) == 0) {
                at = valueOffsets[p >> 4] + column;
            }
            FloatVector v0 = FloatVector.fromArray(F, values, at);
            FloatVector v1 = FloatVector.fromArray(F, values, at + L);
            FloatVector v2 = FloatVector.fromArray(F, values, at + 2 * L);
            FloatVector v3 = FloatVector.fromArray(F, values, at + 3 * L);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, w[w0 + TILE_SIZE + p]);
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
            FloatVector b4 = FloatVector.broadcast(F, w[w0 + 4 * TILE_SIZE + p]);
            s40 = b4.fma(v0, s40);
            s41 = b4.fma(v1, s41);
            s42 = b4.fma(v2, s42);
            s43 = b4.fma(v3, s43);
            FloatVector b5 = FloatVector.broadcast(F, w[w0 + 5 * TILE_SIZE + p]);
            s50 = b5.fma(v0, s50);
            s51 = b5.fma(v1, s51);
            s52 = b5.fma(v2, s52);
            s53 = b5.fma(v3, s53);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(sums, a0);
        none.add(s01).intoArray(sums, a0 + L);
        none.add(s02).intoArray(sums, a0 + 2 * L);
        none.add(s03).intoArray(sums, a0 + 3 * L);
        none.add(s10).intoArray(sums, a0 + headDim);
        none.add(s11).intoArray(sums, a0 + headDim + L);
        none.add(s12).intoArray(sums, a0 + headDim + 2 * L);
        none.add(s13).intoArray(sums, a0 + headDim + 3 * L);
        none.add(s20).intoArray(sums, a0 + 2 * headDim);
        none.add(s21).intoArray(sums, a0 + 2 * headDim + L);
        none.add(s22).intoArray(sums, a0 + 2 * headDim + 2 * L);
        none.add(s23).intoArray(sums, a0 + 2 * headDim + 3 * L);
        none.add(s30).intoArray(sums, a0 + 3 * headDim);
        none.add(s31).intoArray(sums, a0 + 3 * headDim + L);
        none.add(s32).intoArray(sums, a0 + 3 * headDim + 2 * L);
        none.add(s33).intoArray(sums, a0 + 3 * headDim + 3 * L);
        none.add(s40).intoArray(sums, a0 + 4 * headDim);
        none.add(s41).intoArray(sums, a0 + 4 * headDim + L);
        none.add(s42).intoArray(sums, a0 + 4 * headDim + 2 * L);
        none.add(s43).intoArray(sums, a0 + 4 * headDim + 3 * L);
        none.add(s50).intoArray(sums, a0 + 5 * headDim);
        none.add(s51).intoArray(sums, a0 + 5 * headDim + L);
        none.add(s52).intoArray(sums, a0 + 5 * headDim + 2 * L);
        none.add(s53).intoArray(sums, a0 + 5 * headDim + 3 * L);
    }

    private static void accumulate3(
            float[] values,
            int[] valueOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int to,
            float[] sums,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, sums, a0);
        FloatVector s01 = FloatVector.fromArray(F, sums, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, sums, a0 + 2 * L);
        FloatVector s03 = FloatVector.fromArray(F, sums, a0 + 3 * L);
        FloatVector s10 = FloatVector.fromArray(F, sums, a0 + headDim);
        FloatVector s11 = FloatVector.fromArray(F, sums, a0 + headDim + L);
        FloatVector s12 = FloatVector.fromArray(F, sums, a0 + headDim + 2 * L);
        FloatVector s13 = FloatVector.fromArray(F, sums, a0 + headDim + 3 * L);
        FloatVector s20 = FloatVector.fromArray(F, sums, a0 + 2 * headDim);
        FloatVector s21 = FloatVector.fromArray(F, sums, a0 + 2 * headDim + L);
        FloatVector s22 = FloatVector.fromArray(F, sums, a0 + 2 * headDim + 2 * L);
        FloatVector s23 = FloatVector.fromArray(F, sums, a0 + 2 * headDim + 3 * L);
        int at = 0;
        for (int p = 0; p < to; p++, at += headDim) {
            if ((p & 15) == 0) {
                at = valueOffsets[p >> 4] + column;
            }
            FloatVector v0 = FloatVector.fromArray(F, values, at);
            FloatVector v1 = FloatVector.fromArray(F, values, at + L);
            FloatVector v2 = FloatVector.fromArray(F, values, at + 2 * L);
            FloatVector v3 = FloatVector.fromArray(F, values, at + 3 * L);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, w[w0 + TILE_SIZE + p]);
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
        none.add(s00).intoArray(sums, a0);
        none.add(s01).intoArray(sums, a0 + L);
        none.add(s02).intoArray(sums, a0 + 2 * L);
        none.add(s03).intoArray(sums, a0 + 3 * L);
        none.add(s10).intoArray(sums, a0 + headDim);
        none.add(s11).intoArray(sums, a0 + headDim + L);
        none.add(s12).intoArray(sums, a0 + headDim + 2 * L);
        none.add(s13).intoArray(sums, a0 + headDim + 3 * L);
        none.add(s20).intoArray(sums, a0 + 2 * headDim);
        none.add(s21).intoArray(sums, a0 + 2 * headDim + L);
        none.add(s22).intoArray(sums, a0 + 2 * headDim + 2 * L);
        none.add(s23).intoArray(sums, a0 + 2 * headDim + 3 * L);
    }

    private static void accumulate2(
            float[] values,
            int[] valueOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int to,
            float[] sums,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, sums, a0);
        FloatVector s01 = FloatVector.fromArray(F, sums, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, sums, a0 + 2 * L);
        FloatVector s03 = FloatVector.fromArray(F, sums, a0 + 3 * L);
        FloatVector s10 = FloatVector.fromArray(F, sums, a0 + headDim);
        FloatVector s11 = FloatVector.fromArray(F, sums, a0 + headDim + L);
        FloatVector s12 = FloatVector.fromArray(F, sums, a0 + headDim + 2 * L);
        FloatVector s13 = FloatVector.fromArray(F, sums, a0 + headDim + 3 * L);
        int at = 0;
        for (int p = 0; p < to; p++, at += headDim) {
            if ((p & 15) == 0) {
                at = valueOffsets[p >> 4] + column;
            }
            FloatVector v0 = FloatVector.fromArray(F, values, at);
            FloatVector v1 = FloatVector.fromArray(F, values, at + L);
            FloatVector v2 = FloatVector.fromArray(F, values, at + 2 * L);
            FloatVector v3 = FloatVector.fromArray(F, values, at + 3 * L);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
            FloatVector b1 = FloatVector.broadcast(F, w[w0 + TILE_SIZE + p]);
            s10 = b1.fma(v0, s10);
            s11 = b1.fma(v1, s11);
            s12 = b1.fma(v2, s12);
            s13 = b1.fma(v3, s13);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(sums, a0);
        none.add(s01).intoArray(sums, a0 + L);
        none.add(s02).intoArray(sums, a0 + 2 * L);
        none.add(s03).intoArray(sums, a0 + 3 * L);
        none.add(s10).intoArray(sums, a0 + headDim);
        none.add(s11).intoArray(sums, a0 + headDim + L);
        none.add(s12).intoArray(sums, a0 + headDim + 2 * L);
        none.add(s13).intoArray(sums, a0 + headDim + 3 * L);
    }

    private static void accumulate1(
            float[] values,
            int[] valueOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int from,
            int to,
            float[] sums,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, sums, a0);
        FloatVector s01 = FloatVector.fromArray(F, sums, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, sums, a0 + 2 * L);
        FloatVector s03 = FloatVector.fromArray(F, sums, a0 + 3 * L);
        int at = valueOffsets[from >> 4] + (from & 15) * headDim + column;
        for (int p = from; p < to; p++, at += headDim) {
            if ((p & 15) == 0) {
                at = valueOffsets[p >> 4] + column;
            }
            FloatVector v0 = FloatVector.fromArray(F, values, at);
            FloatVector v1 = FloatVector.fromArray(F, values, at + L);
            FloatVector v2 = FloatVector.fromArray(F, values, at + 2 * L);
            FloatVector v3 = FloatVector.fromArray(F, values, at + 3 * L);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(sums, a0);
        none.add(s01).intoArray(sums, a0 + L);
        none.add(s02).intoArray(sums, a0 + 2 * L);
        none.add(s03).intoArray(sums, a0 + 3 * L);
    }
}
