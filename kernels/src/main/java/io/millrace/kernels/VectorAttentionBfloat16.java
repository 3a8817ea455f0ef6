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
            group = VectorRows.group(end - row);
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
                    case 3 -> scores3(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                    case 2 -> scores2(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                    default -> scores1(keys, k0, k1, k2, k3, queries, q, headDim, scores, o);
                }
            }
            for (; v < numVectors; v++) {
                scoresOneVector(
                        keys, VectorRows.keyOffset(keyOffsets, v), queries, q, headDim, group, scores, out + v * L);
            }
        }
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
            FloatVector odd = high(pairs);
            s0 = FloatVector.broadcast(F, q[q0 + d + 1]).fma(odd, s0);
            s1 = FloatVector.broadcast(F, q[q1 + d + 1]).fma(odd, s1);
            s2 = FloatVector.broadcast(F, q[q2 + d + 1]).fma(odd, s2);
            FloatVector even = low(pairs);
            s0 = FloatVector.broadcast(F, q[q0 + d]).fma(even, s0);
            s1 = FloatVector.broadcast(F, q[q1 + d]).fma(even, s1);
            s2 = FloatVector.broadcast(F, q[q2 + d]).fma(even, s2);
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
            FloatVector o0 = high(p0);
            FloatVector o1 = high(p1);
            FloatVector o2 = high(p2);
            FloatVector o3 = high(p3);
            FloatVector c0 = FloatVector.broadcast(F, q[q0 + d + 1]);
            s00 = c0.fma(o0, s00);
            s01 = c0.fma(o1, s01);
            s02 = c0.fma(o2, s02);
            s03 = c0.fma(o3, s03);
            FloatVector e0 = low(p0);
            FloatVector e1 = low(p1);
            FloatVector e2 = low(p2);
            FloatVector e3 = low(p3);
            FloatVector b0 = FloatVector.broadcast(F, q[q0 + d]);
            s00 = b0.fma(e0, s00);
            s01 = b0.fma(e1, s01);
            s02 = b0.fma(e2, s02);
            s03 = b0.fma(e3, s03);
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
            int headDim,
            int[] values,
            int[] valueOffsets,
            float[] openSums) {
        int end = firstRow + numRows;
        int group;
        for (int row = firstRow; row < end; row += group) {
            group = VectorRows.group(end - row);
            int common = counts[row] / 2;
            int w = row * TILE_SIZE;
            int a = row * headDim;
            int d = 0;
            for (; d + 4 * L <= headDim; d += 4 * L) {
                switch (group) {
                    case 3 -> accumulate3(values, valueOffsets, d, headDim, weights, w, common, openSums, a + d);
                    case 2 -> accumulate2(values, valueOffsets, d, headDim, weights, w, common, openSums, a + d);
                    default -> accumulate1(values, valueOffsets, d, headDim, weights, w, 0, common, openSums, a + d);
                }
                for (int r = 1; r < group; r++) {
                    int to = counts[row + r] / 2;
                    if (to > common) {
                        int of = a + r * headDim + d;
                        accumulate1(
                                values, valueOffsets, d, headDim, weights, w + r * TILE_SIZE, common, to, openSums, of);
                    }
                }
            }
            for (; d + 2 * L <= headDim; d += 2 * L) {
                accumulateTwoVectors(values, valueOffsets, d, headDim, weights, w, group, 0, common, openSums, a + d);
                for (int r = 1; r < group; r++) {
                    int to = counts[row + r] / 2;
                    if (to > common) {
                        int of = a + r * headDim + d;
                        accumulateTwoVectors(
                                values,
                                valueOffsets,
                                d,
                                headDim,
                                weights,
                                w + r * TILE_SIZE,
                                1,
                                common,
                                to,
                                openSums,
                                of);
                    }
                }
            }
            for (int r = row; r < row + group; r++) {
                if (d < headDim) {
                    accumulateColumns(values, valueOffsets, d, headDim, weights, r, counts[r] / 2, openSums);
                }
                if (counts[r] % 2 != 0) {
                    int last = counts[r] - 1;
                    int at = valueOffsets[last >> 4] + (last & 15) / 2 * headDim;
                    accumulateLast(values, at, weights[r * TILE_SIZE + last], headDim, openSums, r * headDim);
                }
            }
        }
    }

    /** Columns that no two vectors cover. */
    private static void accumulateColumns(
            int[] values, int[] valueOffsets, int from, int headDim, float[] w, int row, int numPairs, float[] sums) {
        for (int d = from; d < headDim; d++) {
            float sum = sums[row * headDim + d];
            for (int pair = 0; pair < numPairs; pair++) {
                int both = values[valueOffsets[pair >> 3] + (pair & 7) * headDim + d];
                sum = Math.fma(w[row * TILE_SIZE + 2 * pair + 1], Bfloat16.high(both), sum);
                sum = Math.fma(w[row * TILE_SIZE + 2 * pair], Bfloat16.low(both), sum);
            }
            sums[row * headDim + d] = sum;
        }
    }

    /** The last position of an odd number of them. */
    private static void accumulateLast(int[] values, int at, float weight, int headDim, float[] sums, int a) {
        int d = 0;
        for (; d + L <= headDim; d += L) {
            FloatVector sum = FloatVector.fromArray(F, sums, a + d);
            low(IntVector.fromArray(I, values, at + d))
                    .fma(FloatVector.broadcast(F, weight), sum)
                    .intoArray(sums, a + d);
        }
        for (; d < headDim; d++) {
            sums[a + d] = Math.fma(weight, Bfloat16.low(values[at + d]), sums[a + d]);
        }
    }

    /** Two vectors of columns, up to three rows. */
    private static void accumulateTwoVectors(
            int[] values,
            int[] valueOffsets,
            int column,
            int headDim,
            float[] w,
            int w0,
            int rows,
            int from,
            int to,
            float[] sums,
            int a0) {
        int w1 = rows > 1 ? w0 + TILE_SIZE : w0;
        int w2 = rows > 2 ? w0 + 2 * TILE_SIZE : w0;
        FloatVector s00 = FloatVector.fromArray(F, sums, a0);
        FloatVector s01 = FloatVector.fromArray(F, sums, a0 + L);
        int a1 = rows > 1 ? a0 + headDim : a0;
        int a2 = rows > 2 ? a0 + 2 * headDim : a0;
        FloatVector s10 = FloatVector.fromArray(F, sums, a1);
        FloatVector s11 = FloatVector.fromArray(F, sums, a1 + L);
        FloatVector s20 = FloatVector.fromArray(F, sums, a2);
        FloatVector s21 = FloatVector.fromArray(F, sums, a2 + L);
        for (int pair = from; pair < to; pair++) {
            int at = valueOffsets[pair >> 3] + (pair & 7) * headDim + column;
            int p = 2 * pair;
            IntVector p0 = IntVector.fromArray(I, values, at);
            IntVector p1 = IntVector.fromArray(I, values, at + L);
            FloatVector o0 = high(p0);
            FloatVector o1 = high(p1);
            FloatVector c0 = FloatVector.broadcast(F, w[w0 + p + 1]);
            s00 = c0.fma(o0, s00);
            s01 = c0.fma(o1, s01);
            FloatVector c1 = FloatVector.broadcast(F, w[w1 + p + 1]);
            s10 = c1.fma(o0, s10);
            s11 = c1.fma(o1, s11);
            FloatVector c2 = FloatVector.broadcast(F, w[w2 + p + 1]);
            s20 = c2.fma(o0, s20);
            s21 = c2.fma(o1, s21);
            FloatVector e0 = low(p0);
            FloatVector e1 = low(p1);
            FloatVector b0 = FloatVector.broadcast(F, w[w0 + p]);
            s00 = b0.fma(e0, s00);
            s01 = b0.fma(e1, s01);
            FloatVector b1 = FloatVector.broadcast(F, w[w1 + p]);
            s10 = b1.fma(e0, s10);
            s11 = b1.fma(e1, s11);
            FloatVector b2 = FloatVector.broadcast(F, w[w2 + p]);
            s20 = b2.fma(e0, s20);
            s21 = b2.fma(e1, s21);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(sums, a0);
        none.add(s01).intoArray(sums, a0 + L);
        if (rows > 1) {
            none.add(s10).intoArray(sums, a1);
            none.add(s11).intoArray(sums, a1 + L);
        }
        if (rows > 2) {
            none.add(s20).intoArray(sums, a2);
            none.add(s21).intoArray(sums, a2 + L);
        }
    }

    private static void accumulate3(
            int[] values,
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
        for (int pair = 0, p = w0; pair < to; pair++, p += 2) {
            int at = valueOffsets[pair >> 3] + (pair & 7) * headDim + column;
            IntVector p0 = IntVector.fromArray(I, values, at);
            IntVector p1 = IntVector.fromArray(I, values, at + L);
            IntVector p2 = IntVector.fromArray(I, values, at + 2 * L);
            IntVector p3 = IntVector.fromArray(I, values, at + 3 * L);
            FloatVector o0 = high(p0);
            FloatVector o1 = high(p1);
            FloatVector o2 = high(p2);
            FloatVector o3 = high(p3);
            FloatVector c0 = FloatVector.broadcast(F, w[p + 1]);
            s00 = c0.fma(o0, s00);
            s01 = c0.fma(o1, s01);
            s02 = c0.fma(o2, s02);
            s03 = c0.fma(o3, s03);
            FloatVector c1 = FloatVector.broadcast(F, w[p + TILE_SIZE + 1]);
            s10 = c1.fma(o0, s10);
            s11 = c1.fma(o1, s11);
            s12 = c1.fma(o2, s12);
            s13 = c1.fma(o3, s13);
            FloatVector c2 = FloatVector.broadcast(F, w[p + 2 * TILE_SIZE + 1]);
            s20 = c2.fma(o0, s20);
            s21 = c2.fma(o1, s21);
            s22 = c2.fma(o2, s22);
            s23 = c2.fma(o3, s23);
            FloatVector e0 = low(p0);
            FloatVector e1 = low(p1);
            FloatVector e2 = low(p2);
            FloatVector e3 = low(p3);
            FloatVector b0 = FloatVector.broadcast(F, w[p]);
            s00 = b0.fma(e0, s00);
            s01 = b0.fma(e1, s01);
            s02 = b0.fma(e2, s02);
            s03 = b0.fma(e3, s03);
            FloatVector b1 = FloatVector.broadcast(F, w[p + TILE_SIZE]);
            s10 = b1.fma(e0, s10);
            s11 = b1.fma(e1, s11);
            s12 = b1.fma(e2, s12);
            s13 = b1.fma(e3, s13);
            FloatVector b2 = FloatVector.broadcast(F, w[p + 2 * TILE_SIZE]);
            s20 = b2.fma(e0, s20);
            s21 = b2.fma(e1, s21);
            s22 = b2.fma(e2, s22);
            s23 = b2.fma(e3, s23);
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
            int[] values,
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
        for (int pair = 0, p = w0; pair < to; pair++, p += 2) {
            int at = valueOffsets[pair >> 3] + (pair & 7) * headDim + column;
            IntVector p0 = IntVector.fromArray(I, values, at);
            IntVector p1 = IntVector.fromArray(I, values, at + L);
            IntVector p2 = IntVector.fromArray(I, values, at + 2 * L);
            IntVector p3 = IntVector.fromArray(I, values, at + 3 * L);
            FloatVector o0 = high(p0);
            FloatVector o1 = high(p1);
            FloatVector o2 = high(p2);
            FloatVector o3 = high(p3);
            FloatVector c0 = FloatVector.broadcast(F, w[p + 1]);
            s00 = c0.fma(o0, s00);
            s01 = c0.fma(o1, s01);
            s02 = c0.fma(o2, s02);
            s03 = c0.fma(o3, s03);
            FloatVector c1 = FloatVector.broadcast(F, w[p + TILE_SIZE + 1]);
            s10 = c1.fma(o0, s10);
            s11 = c1.fma(o1, s11);
            s12 = c1.fma(o2, s12);
            s13 = c1.fma(o3, s13);
            FloatVector e0 = low(p0);
            FloatVector e1 = low(p1);
            FloatVector e2 = low(p2);
            FloatVector e3 = low(p3);
            FloatVector b0 = FloatVector.broadcast(F, w[p]);
            s00 = b0.fma(e0, s00);
            s01 = b0.fma(e1, s01);
            s02 = b0.fma(e2, s02);
            s03 = b0.fma(e3, s03);
            FloatVector b1 = FloatVector.broadcast(F, w[p + TILE_SIZE]);
            s10 = b1.fma(e0, s10);
            s11 = b1.fma(e1, s11);
            s12 = b1.fma(e2, s12);
            s13 = b1.fma(e3, s13);
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
            int[] values,
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
        for (int pair = from, p = w0 + 2 * from; pair < to; pair++, p += 2) {
            int at = valueOffsets[pair >> 3] + (pair & 7) * headDim + column;
            IntVector p0 = IntVector.fromArray(I, values, at);
            IntVector p1 = IntVector.fromArray(I, values, at + L);
            IntVector p2 = IntVector.fromArray(I, values, at + 2 * L);
            IntVector p3 = IntVector.fromArray(I, values, at + 3 * L);
            FloatVector o0 = high(p0);
            FloatVector o1 = high(p1);
            FloatVector o2 = high(p2);
            FloatVector o3 = high(p3);
            FloatVector c0 = FloatVector.broadcast(F, w[p + 1]);
            s00 = c0.fma(o0, s00);
            s01 = c0.fma(o1, s01);
            s02 = c0.fma(o2, s02);
            s03 = c0.fma(o3, s03);
            FloatVector e0 = low(p0);
            FloatVector e1 = low(p1);
            FloatVector e2 = low(p2);
            FloatVector e3 = low(p3);
            FloatVector b0 = FloatVector.broadcast(F, w[p]);
            s00 = b0.fma(e0, s00);
            s01 = b0.fma(e1, s01);
            s02 = b0.fma(e2, s02);
            s03 = b0.fma(e3, s03);
        }
        FloatVector none = FloatVector.broadcast(F, VectorRows.NOTHING);
        none.add(s00).intoArray(sums, a0);
        none.add(s01).intoArray(sums, a0 + L);
        none.add(s02).intoArray(sums, a0 + 2 * L);
        none.add(s03).intoArray(sums, a0 + 3 * L);
    }
}
