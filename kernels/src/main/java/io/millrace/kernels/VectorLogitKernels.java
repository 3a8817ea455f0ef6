package io.millrace.kernels;

import static io.millrace.kernels.ScalarLogitKernels.LOW_32;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** {@link LogitKernels} on the CPU's widest vectors. */
final class VectorLogitKernels implements LogitKernels {
    private static final VectorSpecies<Float> FLOATS = FloatVector.SPECIES_PREFERRED;
    private static final VectorSpecies<Long> LONGS = LongVector.SPECIES_PREFERRED;
    private static final int LANES = FLOATS.length();
    private static final int LONG_LANES = LONGS.length();
    /** Below 512 bits CPUs have no 64-bit lane multiplication, and the scalar one is faster than its emulation. */
    private static final boolean HAS_LONG_MULTIPLY = LONGS.vectorBitSize() >= 512;

    private static final LongVector LANE_NUMBERS = LongVector.zero(LONGS).addIndex(1);

    private final ScalarLogitKernels scalar = new ScalarLogitKernels();

    static boolean isFast() {
        return FLOATS.vectorBitSize() >= 256;
    }

    @Override
    public float max(float[] values, int offset, int length) {
        int vectorEnd = offset + FLOATS.loopBound(length);
        FloatVector max = FloatVector.broadcast(FLOATS, Float.NEGATIVE_INFINITY);
        // A NaN would be lost or kept by the maximum depending on the CPU's instruction, so it is looked for apart.
        FloatVector notANumber = FloatVector.zero(FLOATS);
        for (int i = offset; i < vectorEnd; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, values, i);
            max = max.max(v);
            notANumber = notANumber.blend(v, v.compare(VectorOperators.NE, v));
        }
        float result = scalar.max(values, vectorEnd, offset + length - vectorEnd);
        if (notANumber.compare(VectorOperators.NE, notANumber).anyTrue()) {
            return Float.NaN;
        }
        for (int lane = 0; lane < LANES; lane++) {
            result = Math.max(result, max.lane(lane));
        }
        return result;
    }

    @Override
    public int firstAtLeast(float[] values, int offset, int length, float threshold) {
        int vectorLength = FLOATS.loopBound(length);
        for (int i = 0; i < vectorLength; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, values, offset + i);
            if (v.compare(VectorOperators.GE, threshold).anyTrue()) {
                return i + scalar.firstAtLeast(values, offset + i, LANES, threshold);
            }
        }
        int rest = scalar.firstAtLeast(values, offset + vectorLength, length - vectorLength, threshold);
        return rest < 0 ? -1 : vectorLength + rest;
    }

    @Override
    public int collectAtLeast(
            float[] values, int offset, int length, float threshold, int firstIndex, int[] indices, int destination) {
        int vectorLength = FLOATS.loopBound(length);
        int end = destination;
        for (int i = 0; i < vectorLength; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, values, offset + i);
            if (v.compare(VectorOperators.GE, threshold).anyTrue()) {
                for (int j = i; j < i + LANES; j++) {
                    indices[end] = firstIndex + j;
                    end += ScalarLogitKernels.isAtLeast(values[offset + j], threshold);
                }
            }
        }
        end += scalar.collectAtLeast(
                values,
                offset + vectorLength,
                length - vectorLength,
                threshold,
                firstIndex + vectorLength,
                indices,
                end);
        return end - destination;
    }

    @Override
    public void expDifferences(float[] logits, int offset, int length, float max, float scale, float[] weights) {
        int vectorLength = FLOATS.loopBound(length);
        for (int i = 0; i < vectorLength; i += LANES) {
            FloatVector x =
                    FloatVector.fromArray(FLOATS, logits, offset + i).sub(max).mul(scale);
            exp(x).intoArray(weights, i);
        }
        ScalarLogitKernels.expDifferences(logits, offset, vectorLength, length, max, scale, weights);
    }

    private static FloatVector exp(FloatVector x) {
        FloatVector rounder = FloatVector.broadcast(FLOATS, ScalarLogitKernels.ROUNDER);
        FloatVector rounded = x.fma(FloatVector.broadcast(FLOATS, ScalarLogitKernels.LOG2_E), rounder);
        FloatVector n = rounded.sub(rounder);
        FloatVector r = n.fma(FloatVector.broadcast(FLOATS, ScalarLogitKernels.MINUS_LN2_HIGH), x);
        r = n.fma(FloatVector.broadcast(FLOATS, ScalarLogitKernels.MINUS_LN2_LOW), r);
        FloatVector p = FloatVector.broadcast(FLOATS, ScalarLogitKernels.P5)
                .fma(r, FloatVector.broadcast(FLOATS, ScalarLogitKernels.P4));
        p = p.fma(r, FloatVector.broadcast(FLOATS, ScalarLogitKernels.P3));
        p = p.fma(r, FloatVector.broadcast(FLOATS, ScalarLogitKernels.P2));
        p = p.fma(r, FloatVector.broadcast(FLOATS, ScalarLogitKernels.P1));
        p = p.fma(r, FloatVector.broadcast(FLOATS, ScalarLogitKernels.P0));
        p = p.fma(r.mul(r), r).add(1f);
        IntVector exponent =
                rounded.reinterpretAsInts().lanewise(VectorOperators.LSHL, 23).add(0x3f800000);
        VectorMask<Float> isInRange = x.compare(VectorOperators.GE, ScalarLogitKernels.MIN_EXPONENT);
        return FloatVector.zero(FLOATS).blend(p.mul(exponent.reinterpretAsFloats()), isInRange);
    }

    @Override
    public void philoxBlocks(
            long key, int c0, int c1, int firstC2, int c3, int numBlocks, long[] planes, int planeStride) {
        int g = 0;
        if (HAS_LONG_MULTIPLY) {
            for (; g < LONGS.loopBound(numBlocks); g += LONG_LANES) {
                philoxVector(key, c0, c1, firstC2 + g, c3, planes, g, planeStride);
            }
        }
        for (; g < numBlocks; g++) {
            ScalarLogitKernels.philoxBlock(key, c0, c1, firstC2 + g, c3, planes, g, planeStride);
        }
    }

    private static void philoxVector(
            long key, int c0, int c1, int firstC2, int c3, long[] planes, int index, int planeStride) {
        LongVector x0 = LongVector.broadcast(LONGS, c0 & LOW_32);
        LongVector x1 = LongVector.broadcast(LONGS, c1 & LOW_32);
        LongVector x2 = LANE_NUMBERS.add(firstC2 & LOW_32).and(LOW_32);
        LongVector x3 = LongVector.broadcast(LONGS, c3 & LOW_32);
        int k0 = (int) key;
        int k1 = (int) (key >>> 32);
        for (int round = 0; round < ScalarLogitKernels.PHILOX_ROUNDS; round++) {
            LongVector product0 = x0.mul(ScalarLogitKernels.PHILOX_M0);
            LongVector product1 = x2.mul(ScalarLogitKernels.PHILOX_M1);
            x0 = product1.lanewise(VectorOperators.LSHR, 32)
                    .lanewise(VectorOperators.XOR, x1)
                    .lanewise(VectorOperators.XOR, k0 & LOW_32);
            x1 = product1.and(LOW_32);
            x2 = product0.lanewise(VectorOperators.LSHR, 32)
                    .lanewise(VectorOperators.XOR, x3)
                    .lanewise(VectorOperators.XOR, k1 & LOW_32);
            x3 = product0.and(LOW_32);
            k0 += ScalarLogitKernels.PHILOX_W0;
            k1 += ScalarLogitKernels.PHILOX_W1;
        }
        x0.intoArray(planes, index);
        x1.intoArray(planes, planeStride + index);
        x2.intoArray(planes, 2 * planeStride + index);
        x3.intoArray(planes, 3 * planeStride + index);
    }
}
