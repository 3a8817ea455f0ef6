package io.millrace.kernels;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Folds tiles of scores into rows' online softmax. Vectors are as wide as those of {@link VectorRows}; sums always run over 16
 * lanes, so the width does not show in the bits.
 */
final class VectorFolds {
    private static final VectorSpecies<Float> F = VectorRows.F;
    private static final int L = VectorRows.L;

    /** L ones, then L zeros: read from L - n, n lanes of 1 and 0 in the rest. */
    private static final float[] KEPT_THEN_NOT = keptThenNot();

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
            float[] scores, int firstRow, int numRows, int[] counts, float[] maxima, float[] sums, float[] factors) {
        int end = firstRow + numRows;
        for (int row = firstRow; row < end; row++) {
            factors[row] = raiseMaximum(scores, row * Kernels.TILE_SIZE, row, counts[row], 0f, maxima);
        }
        for (int row = firstRow; row < end; row++) {
            exponentials(scores, row * Kernels.TILE_SIZE, maxima[row]);
        }
        for (int row = firstRow; row < end; row++) {
            addToLanes(scores, row * Kernels.TILE_SIZE, row, factors[row], sums);
        }
    }

    /** In passes like {@link #foldScores}. */
    static void foldScoresToBfloat16(
            float[] scores,
            int scoresOffset,
            int scoresStride,
            int firstRow,
            int numRows,
            int[] counts,
            float[] maxima,
            float[] sums,
            float[] factors) {
        int end = firstRow + numRows;
        for (int row = firstRow, at = scoresOffset; row < end; row++, at += scoresStride) {
            factors[row] = raiseMaximum(scores, at, row, counts[row], Kernels.SLACK, maxima);
        }
        for (int row = firstRow, at = scoresOffset; row < end; row++, at += scoresStride) {
            exponentialsToBfloat16(scores, at, Kernels.TILE_SIZE, maxima[row]);
        }
        for (int row = firstRow, at = scoresOffset; row < end; row++, at += scoresStride) {
            addToLanes(scores, at, row, factors[row], sums);
        }
    }

    /**
     * In passes over runs of rows whose maximum stays the same from the first of the tiles on, and that is nearly all of them;
     * any other row tile by tile.
     */
    static void foldTilesToBfloat16(
            float[] scores, int numTiles, int firstRow, int numRows, float[] maxima, float[] sums, float[][] factors) {
        int width = numTiles * Kernels.TILE_SIZE;
        int end = firstRow + numRows;
        int start = firstRow;
        for (int row = firstRow; row < end; row++) {
            int at = (row - firstRow) * width;
            factors[0][row] = raiseMaximum(scores, at, row, Kernels.TILE_SIZE, Kernels.SLACK, maxima);
            if (isRaisedLater(scores, at, numTiles, maxima[row] + Kernels.SLACK)) {
                foldRun(scores, (start - firstRow) * width, numTiles, start, row, maxima, sums, factors);
                foldByTile(scores, at, numTiles, row, maxima, sums, factors);
                start = row + 1;
            }
        }
        foldRun(scores, (start - firstRow) * width, numTiles, start, end, maxima, sums, factors);
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
            float[][] factors) {
        int width = numTiles * Kernels.TILE_SIZE;
        for (int row = firstRow, at = offset; row < end; row++, at += width) {
            exponentialsToBfloat16(scores, at, width, maxima[row]);
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
            float[] scores, int offset, int numTiles, int row, float[] maxima, float[] sums, float[][] factors) {
        for (int t = 0; t < numTiles; t++) {
            int at = offset + t * Kernels.TILE_SIZE;
            if (t > 0) {
                factors[t][row] = raiseMaximum(scores, at, row, Kernels.TILE_SIZE, Kernels.SLACK, maxima);
            }
            exponentialsToBfloat16(scores, at, Kernels.TILE_SIZE, maxima[row]);
            addToLanes(scores, at, row, factors[t][row], sums);
        }
    }

    private static float raiseMaximum(float[] scores, int offset, int row, int count, float slack, float[] maxima) {
        if (count < Kernels.TILE_SIZE) {
            blank(scores, offset, count);
        }
        float oldMaximum = maxima[row];
        if (!mayExceed(scores, offset, oldMaximum + slack)) {
            return 1f;
        }
        FloatVector highest = highest(scores, offset);
        if (!highest.compare(VectorOperators.GT, oldMaximum + slack).anyTrue()) {
            return 1f;
        }
        // By way of integers in the order of floats: their maximum over lanes is a single instruction.
        IntVector bits = highest.reinterpretAsInts();
        IntVector ordered = bits.lanewise(
                VectorOperators.XOR, bits.lanewise(VectorOperators.ASHR, 31).and(Integer.MAX_VALUE));
        int maximum = ordered.reduceLanes(VectorOperators.MAX);
        maxima[row] = Float.intBitsToFloat(maximum ^ ((maximum >> 31) & Integer.MAX_VALUE));
        return Exp2.of(oldMaximum - maxima[row]);
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
     * score that equals the bound or is no number may count as one that exceeds it.
     */
    private static boolean mayExceed(float[] scores, int offset, float bound) {
        IntVector signs = signs(scores, offset, bound).and(signs(scores, offset + 2 * L, bound));
        if (L < 16) {
            signs = signs.and(signs(scores, offset + 4 * L, bound).and(signs(scores, offset + 6 * L, bound)));
        }
        return signs.compare(VectorOperators.GE, 0).anyTrue();
    }

    private static IntVector signs(float[] scores, int at, float bound) {
        IntVector first = FloatVector.fromArray(F, scores, at).sub(bound).reinterpretAsInts();
        return first.and(FloatVector.fromArray(F, scores, at + L).sub(bound).reinterpretAsInts());
    }

    /** Each lane's largest score of a tile. Without a loop, around which C2 sometimes boxes. */
    private static FloatVector highest(float[] scores, int offset) {
        FloatVector highest = higher(higher(scores, offset), higher(scores, offset + 2 * L));
        return L == 16
                ? highest
                : higher(highest, higher(higher(scores, offset + 4 * L), higher(scores, offset + 6 * L)));
    }

    private static FloatVector higher(float[] scores, int at) {
        return higher(FloatVector.fromArray(F, scores, at), FloatVector.fromArray(F, scores, at + L));
    }

    private static FloatVector higher(FloatVector a, FloatVector b) {
        return a.blend(b, b.compare(VectorOperators.GT, a));
    }

    private static FloatVector exp2(FloatVector x) {
        FloatVector y = x.blend(Exp2.LOWEST, x.compare(VectorOperators.LT, Exp2.LOWEST));
        VectorMask<Float> high = y.compare(VectorOperators.GT, Exp2.HIGHEST);
        y = y.blend(Exp2.HIGHEST, high);
        FloatVector rounded = y.add(Exp2.ROUNDER);
        FloatVector f = y.sub(rounded.sub(Exp2.ROUNDER));
        FloatVector p = FloatVector.broadcast(F, Exp2.C7);
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C6));
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C5));
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C4));
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C3));
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C2));
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C1));
        p = p.fma(f, FloatVector.broadcast(F, 1f));
        FloatVector power = rounded.reinterpretAsInts()
                .add(127)
                .lanewise(VectorOperators.LSHL, 23)
                .reinterpretAsFloats();
        return p.mul(power);
    }

    /** One exponential in the loop's body: four side by side outgrow the compiler's inlining and box their vectors. */
    private static void exponentials(float[] scores, int offset, float maximum) {
        for (int p = offset; p < offset + Kernels.TILE_SIZE; p += L) {
            exp2(FloatVector.fromArray(F, scores, p).sub(maximum)).intoArray(scores, p);
        }
    }

    private static void exponentialsToBfloat16(float[] scores, int offset, int count, float maximum) {
        for (int p = offset; p < offset + count; p += L) {
            exp2ToBfloat16(FloatVector.fromArray(F, scores, p).sub(maximum)).intoArray(scores, p);
        }
    }

    /** {@link Exp2#toBfloat16}. */
    private static FloatVector exp2ToBfloat16(FloatVector x) {
        FloatVector rounded = x.add(Exp2.ROUNDER);
        FloatVector f = x.sub(rounded.sub(Exp2.ROUNDER));
        FloatVector p = FloatVector.broadcast(F, Exp2.C5);
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C4));
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C3));
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C2));
        p = p.fma(f, FloatVector.broadcast(F, Exp2.C1));
        p = p.fma(f, FloatVector.broadcast(F, 1f));
        IntVector exponents = rounded.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23);
        IntVector bits = p.reinterpretAsInts().add(exponents).add(0x8000).and(0xffff0000);
        return bits.reinterpretAsFloats().blend(0f, x.compare(VectorOperators.LT, Exp2.LOWEST_FACTOR));
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
