package io.millrace.kernels;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
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
    /** Before any vector is used: all classes of vector kernels take their species from here. */
    private static final double OF_PROFILES = isWideEnough() ? VectorProfiles.fill(F, I, S) : 0;

    private VectorRows() {}

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

    /** How many of the rows left attention's products take together: threes, then twos. */
    static int group(int rowsLeft) {
        return rowsLeft == 3 || rowsLeft > 4 ? 3 : Math.min(2, rowsLeft);
    }

    /** Where a vector of a tile's positions stands in its blocks of keys. */
    static int keyOffset(int[] keyOffsets, int vector) {
        int position = vector * L;
        return keyOffsets[position / Kernels.BLOCK_SIZE] + position % Kernels.BLOCK_SIZE;
    }

    static void rmsNorm(
            float[] x, int xOffset, float[] weight, float eps, float[] out, int outOffset, int count, float[] lanes) {
        float factor = normFactor(x, xOffset, eps, count, lanes);
        int i = 0;
        for (; i + L <= count; i += L) {
            FloatVector.fromArray(F, x, xOffset + i)
                    .mul(factor)
                    .mul(FloatVector.fromArray(F, weight, i))
                    .intoArray(out, outOffset + i);
        }
        for (; i < count; i++) {
            out[outOffset + i] = x[xOffset + i] * factor * weight[i];
        }
    }

    static void rmsNormToBfloat16(
            float[] x, int xOffset, float[] weight, float eps, short[] out, int outOffset, int count, float[] lanes) {
        float factor = normFactor(x, xOffset, eps, count, lanes);
        int i = 0;
        for (; i + L <= count; i += L) {
            FloatVector y =
                    FloatVector.fromArray(F, x, xOffset + i).mul(factor).mul(FloatVector.fromArray(F, weight, i));
            IntVector halves = rounded(y).lanewise(VectorOperators.LSHR, 16);
            ((ShortVector) halves.castShape(S, 0)).intoArray(out, outOffset + i);
        }
        for (; i < count; i++) {
            out[outOffset + i] = Bfloat16.round(x[xOffset + i] * factor * weight[i]);
        }
    }

    private static float normFactor(float[] x, int xOffset, float eps, int count, float[] lanes) {
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
        return ScalarKernels.normFactor(lanes, eps, count);
    }

    /** Bfloat16 numbers in the upper halves; the lower ones are not cleared. */
    private static IntVector rounded(FloatVector x) {
        IntVector bits = x.reinterpretAsInts();
        return bits.add(bits.lanewise(VectorOperators.LSHR, 16).and(1)).add(0x7fff);
    }

    /** The same, with magnitudes below {@link Bfloat16#SMALLEST} made 0. */
    private static IntVector roundedFactors(FloatVector x) {
        return rounded(x.blend(0f, x.abs().compare(VectorOperators.LT, Bfloat16.SMALLEST)));
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
            IntVector halves =
                    rounded(FloatVector.fromArray(F, source, sourceOffset + i)).lanewise(VectorOperators.LSHR, 16);
            ((ShortVector) halves.castShape(S, 0)).intoArray(target, targetOffset + i);
        }
        for (; i < count; i++) {
            target[targetOffset + i] = Bfloat16.round(source[sourceOffset + i]);
        }
    }

    static void scaleToBfloat16(float[] x, int offset, float factor, float[] out, int outOffset, int count) {
        int i = 0;
        for (; i + L <= count; i += L) {
            IntVector bits =
                    roundedFactors(FloatVector.fromArray(F, x, offset + i).mul(factor));
            bits.and(0xffff0000).reinterpretAsFloats().intoArray(out, outOffset + i);
        }
        for (; i < count; i++) {
            out[outOffset + i] = Bfloat16.widen(Bfloat16.roundFactor(x[offset + i] * factor));
        }
    }

    static void pairBfloat16(
            float[] low, int lowOffset, float[] high, int highOffset, int[] pairs, int offset, int count) {
        int i = 0;
        for (; i + L <= count; i += L) {
            IntVector lows = roundedFactors(FloatVector.fromArray(F, low, lowOffset + i));
            IntVector highs = roundedFactors(FloatVector.fromArray(F, high, highOffset + i));
            lows.lanewise(VectorOperators.LSHR, 16).or(highs.and(0xffff0000)).intoArray(pairs, offset + i);
        }
        for (; i < count; i++) {
            pairs[offset + i] = Bfloat16.pair(low[lowOffset + i], high[highOffset + i]);
        }
    }

    static void putBfloat16(float[] source, int sourceOffset, int[] pairs, int offset, int count, boolean isHigh) {
        int kept = isHigh ? 0xffff : 0xffff0000;
        int shift = isHigh ? 0 : 16;
        int i = 0;
        for (; i + L <= count; i += L) {
            IntVector put = roundedFactors(FloatVector.fromArray(F, source, sourceOffset + i))
                    .and(0xffff0000)
                    .lanewise(VectorOperators.LSHR, shift);
            IntVector.fromArray(I, pairs, offset + i).and(kept).or(put).intoArray(pairs, offset + i);
        }
        for (; i < count; i++) {
            pairs[offset + i] = Bfloat16.put(source[sourceOffset + i], pairs[offset + i], isHigh);
        }
    }

    static void add(float[] x, int xOffset, float[] y, int yOffset, int count) {
        int i = 0;
        for (; i + L <= count; i += L) {
            FloatVector.fromArray(F, x, xOffset + i)
                    .add(FloatVector.fromArray(F, y, yOffset + i))
                    .intoArray(x, xOffset + i);
        }
        for (; i < count; i++) {
            x[xOffset + i] += y[yOffset + i];
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
}
