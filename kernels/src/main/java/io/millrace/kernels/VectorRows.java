package io.millrace.kernels;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * The kernels over one row. Vectors are 16 lanes wide where the machine has them and 8 else; sums always run over 16
 * lanes, so the width does not show in the bits. Ends shorter than a vector go the scalar way.
 */
final class VectorRows {
    static final VectorSpecies<Float> F = preferred();
    static final int L = F.length();
    static final VectorSpecies<Integer> I = L == 16 ? IntVector.SPECIES_512 : IntVector.SPECIES_256;
    static final VectorSpecies<Short> S = L == 16 ? ShortVector.SPECIES_256 : ShortVector.SPECIES_128;

    /** L ones, then L zeros: read from L - n, n lanes of 1 and 0 in the rest. */
    private static final float[] KEPT_THEN_NOT = keptThenNot();

    private VectorRows() {}

    private static float[] keptThenNot() {
        float[] lanes = new float[2 * L];
        java.util.Arrays.fill(lanes, 0, L, 1f);
        return lanes;
    }

    private static VectorSpecies<Float> preferred() {
        return FloatVector.SPECIES_PREFERRED.length() >= 16 ? FloatVector.SPECIES_512 : FloatVector.SPECIES_256;
    }

    static boolean isWideEnough() {
        return FloatVector.SPECIES_PREFERRED.length() >= 8;
    }

    /**
     * x + NOTHING is x. Before they are stored, vectors that leave a loop are added to a vector of this: its class is known
     * to C2. To a loop's vector itself any class may come, so that C2 goes by those seen at run time, and where other
     * kernels use other widths it boxes all vectors of the loop.
     */
    static final float NOTHING = -0f;

    static FloatVector exp2(FloatVector x) {
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

    static void rmsNorm(
            float[] x, int xOffset, float[] weight, float eps, float[] out, int outOffset, int count, float[] lanes) {
        FloatVector low = FloatVector.zero(F);
        FloatVector high = FloatVector.zero(F);
        int i = 0;
        for (; i + Kernels.LANES <= count; i += Kernels.LANES) {
            FloatVector a = FloatVector.fromArray(F, x, xOffset + i);
            low = a.fma(a, low);
            if (L == 8) {
                FloatVector b = FloatVector.fromArray(F, x, xOffset + i + 8);
                high = b.fma(b, high);
            }
        }
        low.intoArray(lanes, 0);
        if (L == 8) {
            high.intoArray(lanes, 8);
        }
        for (int lane = 0; i < count; i++, lane++) {
            lanes[lane] = Math.fma(x[xOffset + i], x[xOffset + i], lanes[lane]);
        }
        float factor = (float) (1.0 / Math.sqrt((double) ScalarKernels.tree(lanes, 0) / count + eps));
        for (i = 0; i + L <= count; i += L) {
            FloatVector.fromArray(F, x, xOffset + i)
                    .mul(factor)
                    .mul(FloatVector.fromArray(F, weight, i))
                    .intoArray(out, outOffset + i);
        }
        for (; i < count; i++) {
            out[outOffset + i] = x[xOffset + i] * factor * weight[i];
        }
    }

    static void rotate(float[] x, int offset, float[] cos, float[] sin, int tableOffset, int half) {
        int d = 0;
        for (; d + L <= half; d += L) {
            FloatVector a = FloatVector.fromArray(F, x, offset + d);
            FloatVector b = FloatVector.fromArray(F, x, offset + d + half);
            FloatVector c = FloatVector.fromArray(F, cos, tableOffset + d);
            FloatVector s = FloatVector.fromArray(F, sin, tableOffset + d);
            a.fma(c, b.mul(s).neg()).intoArray(x, offset + d);
            b.fma(c, a.mul(s)).intoArray(x, offset + d + half);
        }
        for (; d < half; d++) {
            ScalarKernels.rotatePair(x, offset + d, offset + d + half, cos[tableOffset + d], sin[tableOffset + d]);
        }
    }

    static void scale(float[] x, int offset, float factor, int count) {
        int i = 0;
        for (; i + L <= count; i += L) {
            FloatVector.fromArray(F, x, offset + i).mul(factor).intoArray(x, offset + i);
        }
        for (; i < count; i++) {
            x[offset + i] *= factor;
        }
    }

    static void toBfloat16(float[] source, int sourceOffset, short[] target, int targetOffset, int count) {
        int i = 0;
        for (; i + L <= count; i += L) {
            IntVector bits = FloatVector.fromArray(F, source, sourceOffset + i).reinterpretAsInts();
            IntVector odd = bits.lanewise(VectorOperators.LSHR, 16).and(1);
            IntVector rounded = bits.add(0x7fff).add(odd).lanewise(VectorOperators.LSHR, 16);
            ((ShortVector) rounded.castShape(S, 0)).intoArray(target, targetOffset + i);
        }
        for (; i < count; i++) {
            target[targetOffset + i] = Bfloat16.round(source[sourceOffset + i]);
        }
    }

    static void scaleToBfloat16(float[] x, int offset, float factor, int count) {
        int i = 0;
        for (; i + L <= count; i += L) {
            FloatVector y = FloatVector.fromArray(F, x, offset + i).mul(factor);
            y = y.blend(0f, y.abs().compare(VectorOperators.LT, Bfloat16.SMALLEST));
            IntVector bits = y.reinterpretAsInts();
            IntVector odd = bits.lanewise(VectorOperators.LSHR, 16).and(1);
            bits.add(0x7fff).add(odd).and(0xffff0000).reinterpretAsFloats().intoArray(x, offset + i);
        }
        for (; i < count; i++) {
            x[offset + i] = Bfloat16.widen(Bfloat16.roundFactor(x[offset + i] * factor));
        }
    }

    static void pairBfloat16(
            float[] low, int lowOffset, float[] high, int highOffset, int[] pairs, int offset, int count) {
        int i = 0;
        for (; i + L <= count; i += L) {
            IntVector lows = FloatVector.fromArray(F, low, lowOffset + i).reinterpretAsInts();
            IntVector highs = FloatVector.fromArray(F, high, highOffset + i).reinterpretAsInts();
            lows.lanewise(VectorOperators.LSHR, 16).or(highs).intoArray(pairs, offset + i);
        }
        for (; i < count; i++) {
            pairs[offset + i] =
                    Float.floatToRawIntBits(low[lowOffset + i]) >>> 16 | Float.floatToRawIntBits(high[highOffset + i]);
        }
    }

    static void foldTileSums(float[] tileSums, int from, float factor, float[] accumulators, int at, int count) {
        int i = 0;
        for (; i + L <= count; i += L) {
            FloatVector.fromArray(F, accumulators, at + i)
                    .mul(factor)
                    .add(FloatVector.fromArray(F, tileSums, from + i))
                    .intoArray(accumulators, at + i);
        }
        for (; i < count; i++) {
            accumulators[at + i] = accumulators[at + i] * factor + tileSums[from + i];
        }
    }

    static void narrow(float[] source, int sourceOffset, short[] target, int targetOffset, int count) {
        for (int i = 0; i < count; i += L) {
            IntVector bits = FloatVector.fromArray(F, source, sourceOffset + i).reinterpretAsInts();
            ((ShortVector) bits.lanewise(VectorOperators.LSHR, 16).castShape(S, 0)).intoArray(target, targetOffset + i);
        }
    }

    static boolean isFinite(float[] x, int offset, int count, float[] lanes) {
        FloatVector zero0 = FloatVector.zero(F);
        FloatVector zero1 = FloatVector.zero(F);
        int i = 0;
        for (; i + 2 * L <= count; i += 2 * L) {
            zero0 = FloatVector.fromArray(F, x, offset + i).fma(FloatVector.zero(F), zero0);
            zero1 = FloatVector.fromArray(F, x, offset + i + L).fma(FloatVector.zero(F), zero1);
        }
        zero0.add(zero1).intoArray(lanes, 0);
        float zero = 0;
        for (int lane = 0; lane < L; lane++) {
            zero += lanes[lane];
        }
        for (; i < count; i++) {
            zero = Math.fma(x[offset + i], 0f, zero);
        }
        return zero == 0;
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
            if (highest(scores, offset + t * Kernels.TILE_SIZE)
                    .compare(VectorOperators.GT, bound)
                    .anyTrue()) {
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
