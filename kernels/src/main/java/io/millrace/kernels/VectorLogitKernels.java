package io.millrace.kernels;

import static io.millrace.kernels.ScalarLogitKernels.LOW_32;
import static io.millrace.kernels.ScalarLogitKernels.WEIGHT_SUMS;

import jdk.incubator.vector.DoubleVector;
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

    private static final VectorSpecies<Double> DOUBLES = DoubleVector.SPECIES_PREFERRED;

    private static final VectorMask<Float> ODD_PAIRS = VectorMask.fromLong(FLOATS, 0xCCCC);
    private static final LongVector GROUP_LANES = HAS_LONG_MULTIPLY
            ? LongVector.fromArray(LONGS, new long[] {0, 4, 1, 5, 2, 6, 3, 7}, 0)
            : LongVector.zero(LONGS);
    private static final LongVector LANE_NUMBERS = LongVector.zero(LONGS).addIndex(1);

    private final ScalarLogitKernels scalar = new ScalarLogitKernels();
    private final double[] sums = new double[WEIGHT_SUMS];

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
    public float finiteMax(float[] values, int offset, int length) {
        int vectorEnd = offset + FLOATS.loopBound(length);
        FloatVector max = FloatVector.broadcast(FLOATS, Float.NEGATIVE_INFINITY);
        FloatVector notFinite = FloatVector.zero(FLOATS);
        for (int i = offset; i < vectorEnd; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, values, i);
            max = max.max(v);
            notFinite = notFinite.add(v.sub(v)); // 0, or no number for good
        }
        if (notFinite.compare(VectorOperators.NE, notFinite).anyTrue()) {
            return Float.NaN;
        }
        float result = scalar.finiteMax(values, vectorEnd, offset + length - vectorEnd);
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

    // In one piece, and so too long for C2 to inline into its callers, where it would run out of budget in the middle
    // of the
    // vector operations and box them.
    @Override
    public double expDifferences(
            float[] logits, int offset, int length, float max, float scale, float[] weights, int weightsOffset) {
        int vectorLength = length & -WEIGHT_SUMS;
        FloatVector rounder = FloatVector.broadcast(FLOATS, ScalarLogitKernels.ROUNDER);
        for (int i = 0; i < vectorLength; i += LANES) {
            FloatVector x =
                    FloatVector.fromArray(FLOATS, logits, offset + i).sub(max).mul(scale);
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
            IntVector exponent = rounded.reinterpretAsInts()
                    .lanewise(VectorOperators.LSHL, 23)
                    .add(0x3f800000);
            VectorMask<Float> isInRange = x.compare(VectorOperators.GE, ScalarLogitKernels.MIN_EXPONENT);
            FloatVector w = FloatVector.zero(FLOATS).blend(p.mul(exponent.reinterpretAsFloats()), isInRange);
            w.intoArray(weights, weightsOffset + i);
        }
        double sum = sum(weights, weightsOffset, vectorLength);
        return ScalarLogitKernels.addRestOfWeights(
                logits, offset, vectorLength, length, max, scale, weights, weightsOffset, sum);
    }

    /**
     * A pass of its own, for the same reason. Weights are widened as bits, without vectors of half the width: a second class
     * of float vectors anywhere in the process keeps C2 from inlining the stores of the first, and attention's are boxed.
     */
    private double sum(float[] weights, int offset, int length) {
        DoubleVector even = DoubleVector.zero(DOUBLES);
        DoubleVector odd = DoubleVector.zero(DOUBLES);
        DoubleVector evenHigh = DoubleVector.zero(DOUBLES);
        DoubleVector oddHigh = DoubleVector.zero(DOUBLES);
        for (int i = 0; i < length; i += WEIGHT_SUMS) {
            LongVector low = FloatVector.fromArray(FLOATS, weights, offset + i).reinterpretAsLongs();
            even = even.add(widen(low.and(LOW_32)));
            odd = odd.add(widen(low.lanewise(VectorOperators.LSHR, 32)));
            if (LANES < WEIGHT_SUMS) {
                LongVector high = FloatVector.fromArray(FLOATS, weights, offset + i + LANES)
                        .reinterpretAsLongs();
                evenHigh = evenHigh.add(widen(high.and(LOW_32)));
                oddHigh = oddHigh.add(widen(high.lanewise(VectorOperators.LSHR, 32)));
            }
        }
        // Lane by lane, and by a call, they would be boxed in every turn of the loop.
        even.intoArray(sums, 0);
        odd.intoArray(sums, LANES / 2);
        if (LANES < WEIGHT_SUMS) {
            evenHigh.intoArray(sums, LANES);
            oddHigh.intoArray(sums, LANES + LANES / 2);
        }
        double sum = 0;
        for (int i = 0; i < WEIGHT_SUMS; i++) {
            sum += sums[i % LANES % 2 * (LANES / 2) + i / LANES * LANES + i % LANES / 2];
        }
        return sum;
    }

    private static DoubleVector widen(LongVector floatBits) {
        return floatBits
                .lanewise(VectorOperators.LSHL, ScalarLogitKernels.WIDENING_SHIFT)
                .add(ScalarLogitKernels.WIDENING_BIAS)
                .reinterpretAsDoubles();
    }

    @Override
    public void addMasses(
            float[] logits,
            int offset,
            float[] weights,
            int weightsOffset,
            int length,
            float minWeight,
            float minLogit,
            double[] masses) {
        int vectorLength = length & -ScalarLogitKernels.MASS_SUMS;
        FloatVector all = FloatVector.zero(FLOATS);
        FloatVector above = FloatVector.zero(FLOATS);
        FloatVector allHigh = FloatVector.zero(FLOATS);
        FloatVector aboveHigh = FloatVector.zero(FLOATS);
        for (int i = 0; i < vectorLength; i += ScalarLogitKernels.MASS_SUMS) {
            FloatVector w = atLeast(weights, weightsOffset + i, minWeight);
            all = all.add(w);
            above = above.add(whereAtLeast(logits, offset + i, minLogit, w));
            if (LANES < ScalarLogitKernels.MASS_SUMS) {
                FloatVector wHigh = atLeast(weights, weightsOffset + i + LANES, minWeight);
                allHigh = allHigh.add(wHigh);
                aboveHigh = aboveHigh.add(whereAtLeast(logits, offset + i + LANES, minLogit, wHigh));
            }
        }
        for (int lane = 0; lane < LANES; lane++) {
            masses[0] += all.lane(lane);
            masses[1] += above.lane(lane);
        }
        if (LANES < ScalarLogitKernels.MASS_SUMS) {
            for (int lane = 0; lane < LANES; lane++) {
                masses[0] += allHigh.lane(lane);
                masses[1] += aboveHigh.lane(lane);
            }
        }
        ScalarLogitKernels.addRestOfMasses(
                logits, offset, weights, weightsOffset, vectorLength, length, minWeight, minLogit, masses);
    }

    private static FloatVector atLeast(float[] values, int at, float min) {
        FloatVector v = FloatVector.fromArray(FLOATS, values, at);
        return FloatVector.zero(FLOATS).blend(v, v.compare(VectorOperators.GE, min));
    }

    private static FloatVector whereAtLeast(float[] values, int at, float min, FloatVector w) {
        FloatVector v = FloatVector.fromArray(FLOATS, values, at);
        return FloatVector.zero(FLOATS).blend(w, v.compare(VectorOperators.GE, min));
    }

    @Override
    public int firstPossibleWinner(
            long key, int c0, int c1, int c3, float[] weights, int from, int to, float minWeight, float bound) {
        int id = from;
        if (HAS_LONG_MULTIPLY) {
            id = firstOfWholeGroups(key, c0, c1, c3, weights, from, to, minWeight, bound);
            if (id + WINNER_GROUP <= to) {
                return id;
            }
        }
        return scalar.firstPossibleWinner(key, c0, c1, c3, weights, id, to, minWeight, bound);
    }

    /**
     * One Philox block per lane of 64 bits, in the order 0 4 1 5 2 6 3 7: then weights come to the lanes of their ids by
     * loads at four places, of which two and two are blended, and nothing is permuted. In one piece for the same reason as
     * the exponentials. Gives the end of the whole groups when there is none.
     */
    private static int firstOfWholeGroups(
            long key, int c0, int c1, int c3, float[] weights, int from, int to, float minWeight, float bound) {
        int key0 = (int) key;
        int key1 = (int) (key >>> 32);
        int id = from;
        for (; id + WINNER_GROUP <= to; id += WINNER_GROUP) {
            FloatVector lower = FloatVector.fromArray(FLOATS, weights, id);
            FloatVector upper = FloatVector.fromArray(FLOATS, weights, id + LANES);
            if (!lower.max(upper).compare(VectorOperators.GE, minWeight).anyTrue()) {
                continue;
            }
            LongVector x0 = LongVector.broadcast(LONGS, c0 & LOW_32);
            LongVector x1 = LongVector.broadcast(LONGS, c1 & LOW_32);
            LongVector x2 = GROUP_LANES.add(id >> 2);
            LongVector x3 = LongVector.broadcast(LONGS, c3 & LOW_32);
            int k0 = key0;
            int k1 = key1;
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
            FloatVector first = lower.blend(FloatVector.fromArray(FLOATS, weights, id + 14), ODD_PAIRS);
            FloatVector second = FloatVector.fromArray(FLOATS, weights, id + 2).blend(upper, ODD_PAIRS);
            IntVector firstWords = x0.or(x1.lanewise(VectorOperators.LSHL, 32)).reinterpretAsInts();
            IntVector secondWords = x2.or(x3.lanewise(VectorOperators.LSHL, 32)).reinterpretAsInts();
            IntVector firstHalves =
                    firstWords.lanewise(VectorOperators.LSHR, 1).lanewise(VectorOperators.XOR, 0x7fffffff);
            IntVector secondHalves =
                    secondWords.lanewise(VectorOperators.LSHR, 1).lanewise(VectorOperators.XOR, 0x7fffffff);
            if (firstHalves
                    .convert(VectorOperators.I2F, 0)
                    .compare(VectorOperators.LE, first.mul(bound))
                    .or(secondHalves.convert(VectorOperators.I2F, 0).compare(VectorOperators.LE, second.mul(bound)))
                    .anyTrue()) {
                return id;
            }
        }
        return id;
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
