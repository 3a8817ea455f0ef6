package io.millrace.kernels;

import static io.millrace.kernels.Kernels.BLOCK_SIZE;
import static io.millrace.kernels.Kernels.TILE_SIZE;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Attention's two products over pairs of bfloat16 keys and values, register-tiled: up to three query rows by four vectors,
 * so that what is read and widened once serves three rows (a group of three heads; other groups go as threes and twos).
 * A shift and a mask widen two vectors with one load. Written out because the compiler keeps only named locals in
 * registers, and no wider: bodies of many more operations outgrow what C2 inlines and box their vectors. Every element
 * is its own chain of multiply-adds, so the tiling does not show in the bits.
 */
final class VectorAttentionBfloat16 {
    private static final VectorSpecies<Float> F = VectorRows.F;
    private static final VectorSpecies<Integer> I = VectorRows.I;
    private static final int L = VectorRows.L;
    private static final int HIGH_HALF = 0xffff0000;

    private VectorAttentionBfloat16() {}

    private static FloatVector low(IntVector pairs) {
        return pairs.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    private static FloatVector high(IntVector pairs) {
        return pairs.and(HIGH_HALF).reinterpretAsFloats();
    }

    /** How many of the rows left go together: threes, then twos. */
    private static int group(int rowsLeft) {
        return rowsLeft == 3 || rowsLeft > 4 ? 3 : Math.min(2, rowsLeft);
    }

    /** All rows against all blocks of the tile; positions go in groups of four vectors. */
    static void scores(
            float[] queries,
            int firstRow,
            int numRows,
            int headDim,
            int[] keys,
            int[] keyOffsets,
            int numBlocks,
            float[] scores) {
        int numVectors = numBlocks * BLOCK_SIZE / L;
        int end = firstRow + numRows;
        int group;
        for (int row = firstRow; row < end; row += group) {
            group = group(end - row);
            int q = row * headDim;
            int out = row * TILE_SIZE;
            int v = 0;
            for (; v + 4 <= numVectors; v += 4) {
                int k0 = keyOffset(keyOffsets, v);
                int k1 = keyOffset(keyOffsets, v + 1);
                int k2 = keyOffset(keyOffsets, v + 2);
                int k3 = keyOffset(keyOffsets, v + 3);
                int o = out + v * L;
                switch (group) {
                    case 3 -> scores3(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                    case 2 -> scores2(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                    default -> scores1(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                }
            }
            for (; v < numVectors; v++) {
                scoresOneVector(keys, keyOffset(keyOffsets, v), queries, q, headDim, group, scores, out + v * L);
            }
        }
    }

    private static int keyOffset(int[] keyOffsets, int vector) {
        int position = vector * L;
        return keyOffsets[position / BLOCK_SIZE] + position % BLOCK_SIZE;
    }

    /** One vector of positions, up to three rows: the end of a tile that is not full. */
    private static void scoresOneVector(
            int[] keys, int key, float[] q, int q0, int headDim, int rows, float[] out, int o) {
        int q1 = rows > 1 ? q0 + headDim : q0;
        int q2 = rows > 2 ? q0 + 2 * headDim : q0;
        FloatVector s0 = FloatVector.zero(F);
        FloatVector s1 = FloatVector.zero(F);
        FloatVector s2 = FloatVector.zero(F);
        int at = key;
        for (int d = 0; d < headDim; d += 2, at += BLOCK_SIZE) {
            IntVector pairs = IntVector.fromArray(I, keys, at);
            FloatVector even = low(pairs);
            s0 = FloatVector.broadcast(F, q[q0 + d]).fma(even, s0);
            s1 = FloatVector.broadcast(F, q[q1 + d]).fma(even, s1);
            s2 = FloatVector.broadcast(F, q[q2 + d]).fma(even, s2);
            FloatVector odd = high(pairs);
            s0 = FloatVector.broadcast(F, q[q0 + d + 1]).fma(odd, s0);
            s1 = FloatVector.broadcast(F, q[q1 + d + 1]).fma(odd, s1);
            s2 = FloatVector.broadcast(F, q[q2 + d + 1]).fma(odd, s2);
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

    private static void scores3(
            int[] keys, int k0, int k1, int k2, int k3, float[] q, int q0, int headDim, float[] out, int o) {
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
        for (int d = 0; d < headDim; d += 2, at += BLOCK_SIZE) {
            IntVector p0 = IntVector.fromArray(I, keys, k0 + at);
            IntVector p1 = IntVector.fromArray(I, keys, k1 + at);
            IntVector p2 = IntVector.fromArray(I, keys, k2 + at);
            IntVector p3 = IntVector.fromArray(I, keys, k3 + at);
            FloatVector e0 = low(p0);
            FloatVector e1 = low(p1);
            FloatVector e2 = low(p2);
            FloatVector e3 = low(p3);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(e0, s00);
            s01 = b0.fma(e1, s01);
            s02 = b0.fma(e2, s02);
            s03 = b0.fma(e3, s03);
            FloatVector b1 = FloatVector.broadcast(F, q[q0 + headDim + d]);
            s10 = b1.fma(e0, s10);
            s11 = b1.fma(e1, s11);
            s12 = b1.fma(e2, s12);
            s13 = b1.fma(e3, s13);
            FloatVector b2 = FloatVector.broadcast(F, q[q0 + 2 * headDim + d]);
            s20 = b2.fma(e0, s20);
            s21 = b2.fma(e1, s21);
            s22 = b2.fma(e2, s22);
            s23 = b2.fma(e3, s23);
            FloatVector o0 = high(p0);
            FloatVector o1 = high(p1);
            FloatVector o2 = high(p2);
            FloatVector o3 = high(p3);
            FloatVector c0 = FloatVector.broadcast(F, q[q0 + d + 1]);
            s00 = c0.fma(o0, s00);
            s01 = c0.fma(o1, s01);
            s02 = c0.fma(o2, s02);
            s03 = c0.fma(o3, s03);
            FloatVector c1 = FloatVector.broadcast(F, q[q0 + headDim + d + 1]);
            s10 = c1.fma(o0, s10);
            s11 = c1.fma(o1, s11);
            s12 = c1.fma(o2, s12);
            s13 = c1.fma(o3, s13);
            FloatVector c2 = FloatVector.broadcast(F, q[q0 + 2 * headDim + d + 1]);
            s20 = c2.fma(o0, s20);
            s21 = c2.fma(o1, s21);
            s22 = c2.fma(o2, s22);
            s23 = c2.fma(o3, s23);
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
            int[] keys, int k0, int k1, int k2, int k3, float[] q, int q0, int headDim, float[] out, int o) {
        FloatVector s00 = FloatVector.zero(F);
        FloatVector s01 = FloatVector.zero(F);
        FloatVector s02 = FloatVector.zero(F);
        FloatVector s03 = FloatVector.zero(F);
        FloatVector s10 = FloatVector.zero(F);
        FloatVector s11 = FloatVector.zero(F);
        FloatVector s12 = FloatVector.zero(F);
        FloatVector s13 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d += 2, at += BLOCK_SIZE) {
            IntVector p0 = IntVector.fromArray(I, keys, k0 + at);
            IntVector p1 = IntVector.fromArray(I, keys, k1 + at);
            IntVector p2 = IntVector.fromArray(I, keys, k2 + at);
            IntVector p3 = IntVector.fromArray(I, keys, k3 + at);
            FloatVector e0 = low(p0);
            FloatVector e1 = low(p1);
            FloatVector e2 = low(p2);
            FloatVector e3 = low(p3);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(e0, s00);
            s01 = b0.fma(e1, s01);
            s02 = b0.fma(e2, s02);
            s03 = b0.fma(e3, s03);
            FloatVector b1 = FloatVector.broadcast(F, q[q0 + headDim + d]);
            s10 = b1.fma(e0, s10);
            s11 = b1.fma(e1, s11);
            s12 = b1.fma(e2, s12);
            s13 = b1.fma(e3, s13);
            FloatVector o0 = high(p0);
            FloatVector o1 = high(p1);
            FloatVector o2 = high(p2);
            FloatVector o3 = high(p3);
            FloatVector c0 = FloatVector.broadcast(F, q[q0 + d + 1]);
            s00 = c0.fma(o0, s00);
            s01 = c0.fma(o1, s01);
            s02 = c0.fma(o2, s02);
            s03 = c0.fma(o3, s03);
            FloatVector c1 = FloatVector.broadcast(F, q[q0 + headDim + d + 1]);
            s10 = c1.fma(o0, s10);
            s11 = c1.fma(o1, s11);
            s12 = c1.fma(o2, s12);
            s13 = c1.fma(o3, s13);
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
            int[] keys, int k0, int k1, int k2, int k3, float[] q, int q0, int headDim, float[] out, int o) {
        FloatVector s00 = FloatVector.zero(F);
        FloatVector s01 = FloatVector.zero(F);
        FloatVector s02 = FloatVector.zero(F);
        FloatVector s03 = FloatVector.zero(F);
        int at = 0;
        for (int d = 0; d < headDim; d += 2, at += BLOCK_SIZE) {
            IntVector p0 = IntVector.fromArray(I, keys, k0 + at);
            IntVector p1 = IntVector.fromArray(I, keys, k1 + at);
            IntVector p2 = IntVector.fromArray(I, keys, k2 + at);
            IntVector p3 = IntVector.fromArray(I, keys, k3 + at);
            FloatVector e0 = low(p0);
            FloatVector e1 = low(p1);
            FloatVector e2 = low(p2);
            FloatVector e3 = low(p3);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(e0, s00);
            s01 = b0.fma(e1, s01);
            s02 = b0.fma(e2, s02);
            s03 = b0.fma(e3, s03);
            FloatVector o0 = high(p0);
            FloatVector o1 = high(p1);
            FloatVector o2 = high(p2);
            FloatVector o3 = high(p3);
            FloatVector c0 = FloatVector.broadcast(F, q[q0 + d + 1]);
            s00 = c0.fma(o0, s00);
            s01 = c0.fma(o1, s01);
            s02 = c0.fma(o2, s02);
            s03 = c0.fma(o3, s03);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(out, o);
        none.add(s01).intoArray(out, o + L);
        none.add(s02).intoArray(out, o + 2 * L);
        none.add(s03).intoArray(out, o + 3 * L);
    }

    /**
     * All rows; those of a group go together as far as the shortest of them reaches, then each alone. The rows' own chains
     * over positions stay the same. One loop over positions: in nested ones C2 sometimes boxes the accumulators.
     */
    static void accumulate(
            float[] weights,
            int firstRow,
            int numRows,
            int[] counts,
            float[] factors,
            int headDim,
            int[] values,
            int[] valueOffsets,
            float[] accumulators) {
        int half = headDim / 2;
        int wholeColumns = half / BLOCK_SIZE * BLOCK_SIZE;
        int end = firstRow + numRows;
        int group;
        for (int row = firstRow; row < end; row += group) {
            group = group(end - row);
            // In a pass of its own: with these products too, the methods below outgrow what C2 inlines and box vectors.
            for (int r = row; r < row + group; r++) {
                if (factors[r] != 1f) {
                    VectorRows.scale(accumulators, r * headDim, factors[r], headDim);
                }
            }
            int common = group == 1 ? 0 : counts[row];
            int column = 0;
            for (; column + 2 * L <= wholeColumns; column += 2 * L) {
                int first = valueVector(column);
                int apart = valueVector(column + L) - first;
                int w = row * TILE_SIZE;
                int a = row * headDim + column;
                if (group == 3) {
                    accumulate3(values, valueOffsets, first, apart, half, weights, w, common, accumulators, a);
                } else if (group == 2) {
                    accumulate2(values, valueOffsets, first, apart, half, weights, w, common, accumulators, a);
                }
                for (int r = row; r < row + group; r++, w += TILE_SIZE, a += headDim) {
                    int to = counts[r];
                    if (to > common) {
                        accumulate1(values, valueOffsets, first, apart, half, weights, w, common, to, accumulators, a);
                    }
                }
            }
            for (int r = row; r < row + group; r++) {
                int c = column;
                for (; c < wholeColumns; c += L) {
                    accumulateOneVector(values, valueOffsets, c, half, weights, r, counts[r], accumulators);
                }
                for (; c < half; c++) {
                    accumulateOnePair(values, valueOffsets, c, half, weights, r, counts[r], accumulators);
                }
            }
        }
    }

    /** Where a vector of pairs stands within a block's values. */
    private static int valueVector(int column) {
        return column / BLOCK_SIZE * BLOCK_SIZE * BLOCK_SIZE + column % BLOCK_SIZE;
    }

    /** One vector of pairs of one row: what two vectors at a time leave. */
    private static void accumulateOneVector(
            int[] values, int[] valueOffsets, int column, int half, float[] w, int row, int count, float[] acc) {
        int a = row * 2 * half + column;
        int first = valueVector(column);
        FloatVector s0 = FloatVector.fromArray(F, acc, a);
        FloatVector s1 = FloatVector.fromArray(F, acc, a + half);
        for (int p = 0; p < count; p++) {
            int at = valueOffsets[p >> 4] + (p & 15) * BLOCK_SIZE + first;
            IntVector pairs = IntVector.fromArray(I, values, at);
            FloatVector b = FloatVector.broadcast(F, w[row * TILE_SIZE + p]);
            s0 = b.fma(low(pairs), s0);
            s1 = b.fma(high(pairs), s1);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s0).intoArray(acc, a);
        none.add(s1).intoArray(acc, a + half);
    }

    /** What no vector covers. */
    private static void accumulateOnePair(
            int[] values, int[] valueOffsets, int column, int half, float[] w, int row, int count, float[] acc) {
        int a = row * 2 * half + column;
        for (int p = 0; p < count; p++) {
            int pair = values[valueOffsets[p / BLOCK_SIZE] + Bfloat16.valuePair(p % BLOCK_SIZE, column, half)];
            float weight = w[row * TILE_SIZE + p];
            acc[a] = Math.fma(weight, Bfloat16.low(pair), acc[a]);
            acc[a + half] = Math.fma(weight, Bfloat16.high(pair), acc[a + half]);
        }
    }

    private static void accumulate3(
            int[] values,
            int[] valueOffsets,
            int first,
            int apart,
            int half,
            float[] w,
            int w0,
            int to,
            float[] acc,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, acc, a0);
        FloatVector s01 = FloatVector.fromArray(F, acc, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, acc, a0 + half);
        FloatVector s03 = FloatVector.fromArray(F, acc, a0 + L + half);
        FloatVector s10 = FloatVector.fromArray(F, acc, a0 + 2 * half);
        FloatVector s11 = FloatVector.fromArray(F, acc, a0 + 2 * half + L);
        FloatVector s12 = FloatVector.fromArray(F, acc, a0 + 2 * half + half);
        FloatVector s13 = FloatVector.fromArray(F, acc, a0 + 2 * half + L + half);
        FloatVector s20 = FloatVector.fromArray(F, acc, a0 + 4 * half);
        FloatVector s21 = FloatVector.fromArray(F, acc, a0 + 4 * half + L);
        FloatVector s22 = FloatVector.fromArray(F, acc, a0 + 4 * half + half);
        FloatVector s23 = FloatVector.fromArray(F, acc, a0 + 4 * half + L + half);
        for (int p = 0; p < to; p++) {
            int at = valueOffsets[p >> 4] + (p & 15) * BLOCK_SIZE + first;
            IntVector p0 = IntVector.fromArray(I, values, at);
            IntVector p1 = IntVector.fromArray(I, values, at + apart);
            FloatVector v0 = low(p0);
            FloatVector v1 = low(p1);
            FloatVector v2 = high(p0);
            FloatVector v3 = high(p1);
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
        none.add(s00).intoArray(acc, a0);
        none.add(s01).intoArray(acc, a0 + L);
        none.add(s02).intoArray(acc, a0 + half);
        none.add(s03).intoArray(acc, a0 + L + half);
        none.add(s10).intoArray(acc, a0 + 2 * half);
        none.add(s11).intoArray(acc, a0 + 2 * half + L);
        none.add(s12).intoArray(acc, a0 + 2 * half + half);
        none.add(s13).intoArray(acc, a0 + 2 * half + L + half);
        none.add(s20).intoArray(acc, a0 + 4 * half);
        none.add(s21).intoArray(acc, a0 + 4 * half + L);
        none.add(s22).intoArray(acc, a0 + 4 * half + half);
        none.add(s23).intoArray(acc, a0 + 4 * half + L + half);
    }

    private static void accumulate2(
            int[] values,
            int[] valueOffsets,
            int first,
            int apart,
            int half,
            float[] w,
            int w0,
            int to,
            float[] acc,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, acc, a0);
        FloatVector s01 = FloatVector.fromArray(F, acc, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, acc, a0 + half);
        FloatVector s03 = FloatVector.fromArray(F, acc, a0 + L + half);
        FloatVector s10 = FloatVector.fromArray(F, acc, a0 + 2 * half);
        FloatVector s11 = FloatVector.fromArray(F, acc, a0 + 2 * half + L);
        FloatVector s12 = FloatVector.fromArray(F, acc, a0 + 2 * half + half);
        FloatVector s13 = FloatVector.fromArray(F, acc, a0 + 2 * half + L + half);
        for (int p = 0; p < to; p++) {
            int at = valueOffsets[p >> 4] + (p & 15) * BLOCK_SIZE + first;
            IntVector p0 = IntVector.fromArray(I, values, at);
            IntVector p1 = IntVector.fromArray(I, values, at + apart);
            FloatVector v0 = low(p0);
            FloatVector v1 = low(p1);
            FloatVector v2 = high(p0);
            FloatVector v3 = high(p1);
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
        none.add(s00).intoArray(acc, a0);
        none.add(s01).intoArray(acc, a0 + L);
        none.add(s02).intoArray(acc, a0 + half);
        none.add(s03).intoArray(acc, a0 + L + half);
        none.add(s10).intoArray(acc, a0 + 2 * half);
        none.add(s11).intoArray(acc, a0 + 2 * half + L);
        none.add(s12).intoArray(acc, a0 + 2 * half + half);
        none.add(s13).intoArray(acc, a0 + 2 * half + L + half);
    }

    private static void accumulate1(
            int[] values,
            int[] valueOffsets,
            int first,
            int apart,
            int half,
            float[] w,
            int w0,
            int from,
            int to,
            float[] acc,
            int a0) {
        FloatVector s00 = FloatVector.fromArray(F, acc, a0);
        FloatVector s01 = FloatVector.fromArray(F, acc, a0 + L);
        FloatVector s02 = FloatVector.fromArray(F, acc, a0 + half);
        FloatVector s03 = FloatVector.fromArray(F, acc, a0 + L + half);
        for (int p = from; p < to; p++) {
            int at = valueOffsets[p >> 4] + (p & 15) * BLOCK_SIZE + first;
            IntVector p0 = IntVector.fromArray(I, values, at);
            IntVector p1 = IntVector.fromArray(I, values, at + apart);
            FloatVector v0 = low(p0);
            FloatVector v1 = low(p1);
            FloatVector v2 = high(p0);
            FloatVector v3 = high(p1);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(v0, s00);
            s01 = b0.fma(v1, s01);
            s02 = b0.fma(v2, s02);
            s03 = b0.fma(v3, s03);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(acc, a0);
        none.add(s01).intoArray(acc, a0 + L);
        none.add(s02).intoArray(acc, a0 + half);
        none.add(s03).intoArray(acc, a0 + L + half);
    }
}
