package io.millrace.kernels;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Folds tiles of scores into rows' online softmax. Vectors are as wide as those of {@link VectorRows}; sums always run over 16
 * lanes, so the width does not show in the bits. No method here takes or returns a vector: where C2's budget for inlining ends,
 * and in long methods it does, such would be boxed.
 */
final class VectorFolds {
    private static final VectorSpecies<Float> F = VectorRows.F;
    private static final int L = VectorRows.L;

    /** L ones, then L zeros: read from L - n, n lanes of 1 and 0 in the rest. */
    private static final float[] KEPT_THEN_NOT = keptThenNot();

    private static final int FARTHEST_BITS = Float.floatToRawIntBits(Exp2.FARTHEST);
    private static final int FARTHEST_BITS_OF_FACTORS = Float.floatToRawIntBits(Exp2.FARTHEST_OF_FACTORS);
    private static final int INFINITY_BITS = 0x7f800000;
    private static final float NEGATIVE_NAN = Float.intBitsToFloat(0xffc00000);

    private VectorFolds() {}

    private static float[] keptThenNot() {
        float[] lanes = new float[2 * L];
        java.util.Arrays.fill(lanes, 0, L, 1f);
        return lanes;
    }

    /**
     * In passes over all rows, so that one row's chain of waits (maximum, exponentials, sums) overlaps with the others'.
     * Where no score exceeds the maximum, and that is most tiles but the first, nothing is reduced across lanes.
     */
    static void foldScores(
            float[] scores,
            int scoresOffset,
            int scoresStride,
            int firstRow,
            int numRows,
            int[] counts,
            float[] maxima,
            float[] sums,
            float[] factors,
            boolean toBfloat16) {
        int end = firstRow + numRows;
        for (int row = firstRow, at = scoresOffset; row < end; row++, at += scoresStride) {
            factors[row] = raiseMaximum(scores, at, row, counts[row], maxima);
        }
        for (int row = firstRow, at = scoresOffset; row < end; row++, at += scoresStride) {
            exponentials(scores, at, Kernels.TILE_SIZE, maxima[row], toBfloat16);
        }
        for (int row = firstRow, at = scoresOffset; row < end; row++, at += scoresStride) {
            addToLanes(scores, at, row, factors[row], sums);
        }
    }

    /**
     * In passes over runs of rows whose maximum stays the same from the first of the tiles on, and that is nearly all of them;
     * any other row tile by tile.
     */
    static void foldTiles(
            float[] scores,
            int numTiles,
            int firstRow,
            int numRows,
            float[] maxima,
            float[] sums,
            float[][] factors,
            boolean toBfloat16) {
        int width = numTiles * Kernels.TILE_SIZE;
        int end = firstRow + numRows;
        int start = firstRow;
        for (int row = firstRow; row < end; row++) {
            int at = (row - firstRow) * width;
            factors[0][row] = raiseMaximum(scores, at, row, Kernels.TILE_SIZE, maxima);
            if (isRaisedLater(scores, at, numTiles, maxima[row] + Kernels.SLACK)) {
                foldRun(scores, (start - firstRow) * width, numTiles, start, row, maxima, sums, factors, toBfloat16);
                foldByTile(scores, at, numTiles, row, maxima, sums, factors, toBfloat16);
                start = row + 1;
            }
        }
        foldRun(scores, (start - firstRow) * width, numTiles, start, end, maxima, sums, factors, toBfloat16);
    }

    private static boolean isRaisedLater(float[] scores, int offset, int numTiles, float bound) {
        for (int t = 1; t < numTiles; t++) {
            if (mayExceed(scores, offset + t * Kernels.TILE_SIZE, bound)) {
                return true;
            }
        }
        return false;
    }

    private static void foldRun(
            float[] scores,
            int offset,
            int numTiles,
            int firstRow,
            int end,
            float[] maxima,
            float[] sums,
            float[][] factors,
            boolean toBfloat16) {
        int width = numTiles * Kernels.TILE_SIZE;
        for (int row = firstRow, at = offset; row < end; row++, at += width) {
            exponentials(scores, at, width, maxima[row], toBfloat16);
        }
        for (int row = firstRow, at = offset; row < end; row++, at += width) {
            addToLanes(scores, at, row, factors[0][row], sums);
        }
        for (int t = 1; t < numTiles; t++) {
            int at = offset + t * Kernels.TILE_SIZE;
            for (int row = firstRow; row < end; row++, at += width) {
                factors[t][row] = 1f;
                addToLanes(scores, at, row, 1f, sums);
            }
        }
    }

    /** One row, the first of whose tiles has raised the maximum already. */
    private static void foldByTile(
            float[] scores,
            int offset,
            int numTiles,
            int row,
            float[] maxima,
            float[] sums,
            float[][] factors,
            boolean toBfloat16) {
        for (int t = 0; t < numTiles; t++) {
            int at = offset + t * Kernels.TILE_SIZE;
            if (t > 0) {
                factors[t][row] = raiseMaximum(scores, at, row, Kernels.TILE_SIZE, maxima);
            }
            exponentials(scores, at, Kernels.TILE_SIZE, maxima[row], toBfloat16);
            addToLanes(scores, at, row, factors[t][row], sums);
        }
    }

    private static float raiseMaximum(float[] scores, int offset, int row, int count, float[] maxima) {
        if (count < Kernels.TILE_SIZE) {
            blank(scores, offset, count);
        }
        float oldMaximum = maxima[row];
        if (!mayExceed(scores, offset, oldMaximum + Kernels.SLACK)) {
            return 1f;
        }
        int bits = highestBits(scores, offset);
        float maximum = bits < INFINITY_BITS ? Float.intBitsToFloat(bits) : highestOfNumbers(scores, offset);
        if (!(maximum > oldMaximum + Kernels.SLACK)) {
            return 1f;
        }
        maxima[row] = maximum;
        return Exp2.of(oldMaximum - maximum);
    }

    /** Also sets the sign bit of scores that are no numbers; infinite ones, whose powers are none, become such. */
    private static float highestOfNumbers(float[] scores, int offset) {
        float highest = Float.NEGATIVE_INFINITY;
        for (int p = offset; p < offset + Kernels.TILE_SIZE; p++) {
            highest = scores[p] > highest ? scores[p] : highest;
            if (Float.floatToRawIntBits(scores[p]) >= INFINITY_BITS) {
                scores[p] = NEGATIVE_NAN;
            }
        }
        return highest;
    }

    /**
     * Sets a tile's scores from count on to negative infinity. By whole vectors: one that is read back after parts of it were
     * written waits until they have reached the cache.
     */
    private static void blank(float[] scores, int offset, int count) {
        int p = count & -L;
        if (p < count) {
            FloatVector kept = FloatVector.fromArray(F, KEPT_THEN_NOT, L - (count - p));
            FloatVector.fromArray(F, scores, offset + p)
                    .blend(Float.NEGATIVE_INFINITY, kept.compare(VectorOperators.EQ, 0f))
                    .intoArray(scores, offset + p);
            p += L;
        }
        for (; p < Kernels.TILE_SIZE; p += L) {
            FloatVector.broadcast(F, Float.NEGATIVE_INFINITY).intoArray(scores, offset + p);
        }
    }

    /**
     * False only if no score of a tile exceeds a bound: by the signs of differences, which takes far less than comparing. A
     * score that equals the bound may count as one that exceeds it, and one that is no number does, unless its sign is set.
     */
    private static boolean mayExceed(float[] scores, int offset, float bound) {
        return mayFourExceed(scores, offset, bound) || L < 16 && mayFourExceed(scores, offset + 4 * L, bound);
    }

    private static boolean mayFourExceed(float[] scores, int offset, float bound) {
        IntVector s0 = FloatVector.fromArray(F, scores, offset).sub(bound).reinterpretAsInts();
        IntVector s1 = FloatVector.fromArray(F, scores, offset + L).sub(bound).reinterpretAsInts();
        IntVector s2 =
                FloatVector.fromArray(F, scores, offset + 2 * L).sub(bound).reinterpretAsInts();
        IntVector s3 =
                FloatVector.fromArray(F, scores, offset + 3 * L).sub(bound).reinterpretAsInts();
        return s0.and(s1).and(s2.and(s3)).compare(VectorOperators.GE, 0).anyTrue();
    }

    /** A tile's largest score; infinity and NaNs without sign come last, NaNs with it first. Floats in the order of integers. */
    private static int highestBits(float[] scores, int offset) {
        int highest = highestOfFour(scores, offset);
        if (L < 16) {
            highest = Math.max(highest, highestOfFour(scores, offset + 4 * L));
        }
        if (highest >= 0) {
            return highest;
        }
        int least = leastOfFour(scores, offset);
        return L < 16 ? Math.min(least, leastOfFour(scores, offset + 4 * L)) : least;
    }

    private static int highestOfFour(float[] scores, int offset) {
        IntVector s0 = FloatVector.fromArray(F, scores, offset).reinterpretAsInts();
        IntVector s1 = FloatVector.fromArray(F, scores, offset + L).reinterpretAsInts();
        IntVector s2 = FloatVector.fromArray(F, scores, offset + 2 * L).reinterpretAsInts();
        IntVector s3 = FloatVector.fromArray(F, scores, offset + 3 * L).reinterpretAsInts();
        return s0.max(s1).max(s2.max(s3)).reduceLanes(VectorOperators.MAX);
    }

    /** Of negative floats the highest. */
    private static int leastOfFour(float[] scores, int offset) {
        IntVector s0 = FloatVector.fromArray(F, scores, offset).reinterpretAsInts();
        IntVector s1 = FloatVector.fromArray(F, scores, offset + L).reinterpretAsInts();
        IntVector s2 = FloatVector.fromArray(F, scores, offset + 2 * L).reinterpretAsInts();
        IntVector s3 = FloatVector.fromArray(F, scores, offset + 3 * L).reinterpretAsInts();
        return s0.min(s1).min(s2.min(s3)).reduceLanes(VectorOperators.MIN);
    }

    private static void exponentials(float[] scores, int offset, int count, float maximum, boolean toBfloat16) {
        if (toBfloat16) {
            exponentialsToBfloat16(scores, offset, count, maximum);
        } else {
            exponentials(scores, offset, count, maximum);
        }
    }

    /**
     * {@link Exp2#ofScore}; scores that are no numbers have their sign bit set. The minimum by way of integers is a single
     * instruction: negative floats are negative integers, so they stay, and so do such that are no numbers. One exponential in
     * the loop's body: four side by side box their vectors.
     */
    private static void exponentials(float[] scores, int offset, int count, float maximum) {
        for (int p = offset; p < offset + count; p += L) {
            FloatVector distance = FloatVector.broadcast(F, maximum).sub(FloatVector.fromArray(F, scores, p));
            FloatVector y = distance.reinterpretAsInts()
                    .lanewise(VectorOperators.MIN, FARTHEST_BITS)
                    .reinterpretAsFloats();
            FloatVector rounder = FloatVector.broadcast(F, Exp2.ROUNDER_OF_POWERS);
            FloatVector rounded = rounder.sub(y);
            FloatVector f = rounder.sub(rounded).sub(y);
            FloatVector e = FloatVector.broadcast(F, Exp2.C7);
            e = e.fma(f, FloatVector.broadcast(F, Exp2.C6));
            e = e.fma(f, FloatVector.broadcast(F, Exp2.C5));
            e = e.fma(f, FloatVector.broadcast(F, Exp2.C4));
            e = e.fma(f, FloatVector.broadcast(F, Exp2.C3));
            e = e.fma(f, FloatVector.broadcast(F, Exp2.C2));
            e = e.fma(f, FloatVector.broadcast(F, Exp2.C1));
            e = e.fma(f, FloatVector.broadcast(F, 1f));
            IntVector power = rounded.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23);
            e.mul(power.reinterpretAsFloats()).intoArray(scores, p);
        }
    }

    /** {@link Exp2#toBfloat16}, with the same said of it. */
    private static void exponentialsToBfloat16(float[] scores, int offset, int count, float maximum) {
        for (int p = offset; p < offset + count; p += L) {
            FloatVector distance = FloatVector.broadcast(F, maximum - 0.5f).sub(FloatVector.fromArray(F, scores, p));
            FloatVector y = distance.reinterpretAsInts()
                    .lanewise(VectorOperators.MIN, FARTHEST_BITS_OF_FACTORS)
                    .reinterpretAsFloats();
            FloatVector rounder = FloatVector.broadcast(F, Exp2.ROUNDER_OF_FACTORS);
            FloatVector rounded = rounder.sub(y);
            FloatVector f = y.sub(rounder.sub(rounded));
            FloatVector e = FloatVector.broadcast(F, Exp2.B3);
            e = e.fma(f, FloatVector.broadcast(F, Exp2.B2));
            e = e.fma(f, FloatVector.broadcast(F, Exp2.B1));
            e = e.fma(f, FloatVector.broadcast(F, Exp2.B0));
            IntVector power = rounded.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23);
            IntVector bits = e.mul(power.reinterpretAsFloats()).reinterpretAsInts();
            bits.and(0xffff0000).reinterpretAsFloats().intoArray(scores, p);
        }
    }

    private static void addToLanes(float[] scores, int offset, int row, float factor, float[] sums) {
        for (int lane = 0; lane < Kernels.LANES; lane += L) {
            int p = offset + lane;
            FloatVector first = FloatVector.fromArray(F, scores, p).add(FloatVector.fromArray(F, scores, p + 16));
            FloatVector second = FloatVector.fromArray(F, scores, p + 32).add(FloatVector.fromArray(F, scores, p + 48));
            int at = row * Kernels.LANES + lane;
            FloatVector.fromArray(F, sums, at)
                    .fma(FloatVector.broadcast(F, factor), first.add(second))
                    .intoArray(sums, at);
        }
    }
}
