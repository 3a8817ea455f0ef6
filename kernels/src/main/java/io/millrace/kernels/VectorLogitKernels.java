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
    private static final VectorSpecies<Float> FLOATS = VectorRows.F;
    private static final VectorSpecies<Long> LONGS = LongVector.SPECIES_PREFERRED;
    private static final int LANES = FLOATS.length();
    private static final int LONG_LANES = LONGS.length();
    /** Below 512 bits CPUs have no 64-bit lane multiplication, and the scalar one is faster than its emulation. */
    private static final boolean HAS_LONG_MULTIPLY = LONGS.vectorBitSize() >= 512;

    private static final VectorSpecies<Double> DOUBLES = DoubleVector.SPECIES_PREFERRED;

    private static final int INFINITY_BITS = 0x7f800000;
    private static final VectorMask<Float> ODD_PAIRS = VectorMask.fromLong(FLOATS, 0xCCCC);
    private static final LongVector GROUP_LANES = HAS_LONG_MULTIPLY
            ? LongVector.fromArray(LONGS, new long[] {0, 4, 1, 5, 2, 6, 3, 7}, 0)
            : LongVector.zero(LONGS);
    private static final LongVector LANE_NUMBERS = LongVector.zero(LONGS).addIndex(1);

    /** An even number. */
    private static final int MAX_WORD_GROUPS = 16;

    private final ScalarLogitKernels scalar = new ScalarLogitKernels();
    private final double[] sums = new double[WEIGHT_SUMS];
    private final long[] roundKeys = new long[2 * ScalarLogitKernels.PHILOX_ROUNDS];
    /** The words of up to MAX_WORD_GROUPS groups of ids, two a long. */
    private final long[] words = new long[MAX_WORD_GROUPS * WINNER_GROUP / 2];

    static boolean isFast() {
        return VectorRows.isWideEnough();
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
        // As ints, since a maximum of floats is a chain of five instructions. Bits of negative floats are turned round,
        // so that all are ordered as floats are, -0 below 0.
        IntVector max = FloatVector.broadcast(FLOATS, Float.NEGATIVE_INFINITY)
                .reinterpretAsInts()
                .lanewise(VectorOperators.XOR, Integer.MAX_VALUE);
        IntVector maxMagnitude = max.broadcast(0);
        for (int i = offset; i < vectorEnd; i += LANES) {
            IntVector bits = FloatVector.fromArray(FLOATS, values, i).reinterpretAsInts();
            max = max.max(bits.lanewise(
                    VectorOperators.XOR, bits.lanewise(VectorOperators.ASHR, 31).and(Integer.MAX_VALUE)));
            maxMagnitude = maxMagnitude.max(bits.and(Integer.MAX_VALUE));
        }
        float result = scalar.finiteMax(values, vectorEnd, offset + length - vectorEnd);
        for (int lane = 0; lane < LANES; lane++) {
            int ordered = max.lane(lane);
            float ofLane = Float.intBitsToFloat(ordered ^ ordered >> 31 & Integer.MAX_VALUE);
            boolean isFinite = maxMagnitude.lane(lane) < INFINITY_BITS;
            result = Math.max(result, isFinite ? ofLane : Float.NaN);
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
    // of the vector operations and box them.
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
     * A pass of its own, for the same reason, and without a method for what is done four times: at methods of ours C2 stops
     * where its budget of nodes ends, and what is passed to them is boxed. Weights are widened as bits, without vectors of half the
     * width: a second class of float vectors anywhere in the process keeps C2 from inlining the stores of the first.
     */
    private double sum(float[] weights, int offset, int length) {
        DoubleVector even = DoubleVector.zero(DOUBLES);
        DoubleVector odd = DoubleVector.zero(DOUBLES);
        DoubleVector evenHigh = DoubleVector.zero(DOUBLES);
        DoubleVector oddHigh = DoubleVector.zero(DOUBLES);
        for (int i = 0; i < length; i += WEIGHT_SUMS) {
            LongVector low = FloatVector.fromArray(FLOATS, weights, offset + i).reinterpretAsLongs();
            even = even.add(low.and(LOW_32)
                    .lanewise(VectorOperators.LSHL, ScalarLogitKernels.WIDENING_SHIFT)
                    .add(ScalarLogitKernels.WIDENING_BIAS)
                    .reinterpretAsDoubles());
            odd = odd.add(low.lanewise(VectorOperators.LSHR, 32)
                    .lanewise(VectorOperators.LSHL, ScalarLogitKernels.WIDENING_SHIFT)
                    .add(ScalarLogitKernels.WIDENING_BIAS)
                    .reinterpretAsDoubles());
            if (LANES < WEIGHT_SUMS) {
                LongVector high = FloatVector.fromArray(FLOATS, weights, offset + i + LANES)
                        .reinterpretAsLongs();
                evenHigh = evenHigh.add(high.and(LOW_32)
                        .lanewise(VectorOperators.LSHL, ScalarLogitKernels.WIDENING_SHIFT)
                        .add(ScalarLogitKernels.WIDENING_BIAS)
                        .reinterpretAsDoubles());
                oddHigh = oddHigh.add(high.lanewise(VectorOperators.LSHR, 32)
                        .lanewise(VectorOperators.LSHL, ScalarLogitKernels.WIDENING_SHIFT)
                        .add(ScalarLogitKernels.WIDENING_BIAS)
                        .reinterpretAsDoubles());
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
        if (!HAS_LONG_MULTIPLY) {
            return scalar.firstPossibleWinner(key, c0, c1, c3, weights, from, to, minWeight, bound);
        }
        scheduleKeys(key);
        int id = from;
        while (id + WINNER_GROUP <= to) {
            // Whoever wins lowers the bound, so the next winner is the farther away; few words are computed in vain.
            int numGroups =
                    Math.min(Math.min((to - id) / WINNER_GROUP, MAX_WORD_GROUPS), 2 + (id - from) / WINNER_GROUP);
            if (firstAtLeast(weights, id, numGroups * WINNER_GROUP, minWeight) < 0) {
                id += numGroups * WINNER_GROUP;
                continue;
            }
            fillWords(c0, c1, c3, id >> 2, numGroups);
            int group = firstOfWords(weights, id, 0, numGroups, bound);
            while (group < numGroups) {
                if (scalar.firstAtLeast(weights, id + group * WINNER_GROUP, WINNER_GROUP, minWeight) >= 0) {
                    return id + group * WINNER_GROUP;
                }
                group = firstOfWords(weights, id, group + 1, numGroups, bound);
            }
            id += numGroups * WINNER_GROUP;
        }
        return scalar.firstPossibleWinner(key, c0, c1, c3, weights, id, to, minWeight, bound);
    }

    private void scheduleKeys(long key) {
        int key0 = (int) key;
        int key1 = (int) (key >>> 32);
        for (int round = 0; round < ScalarLogitKernels.PHILOX_ROUNDS; round++) {
            roundKeys[2 * round] = (key0 + round * ScalarLogitKernels.PHILOX_W0) & LOW_32;
            roundKeys[2 * round + 1] = (key1 + round * ScalarLogitKernels.PHILOX_W1) & LOW_32;
        }
    }

    /**
     * The words of some groups of ids, two groups a turn: one alone waits for its multiplications most of the time, and
     * what the CPU sees ahead is too short for it to begin the next. One Philox block per lane of 64 bits, in the order
     * 0 4 1 5 2 6 3 7: then weights come to the lanes of their ids by loads at four places, of which two and two are
     * blended, and nothing is permuted. The first two rounds, where most of the counter is the same for all ids, are done
     * ahead as far as they can be; low halves of products are cut out where they are used. Comparing in the same loop would
     * be more than C2 inlines.
     */
    private void fillWords(int c0, int c1, int c3, int firstBlock, int numGroups) {
        long product0 = (c0 & LOW_32) * ScalarLogitKernels.PHILOX_M0;
        long product1 = (product0 >>> 32 ^ c3 & LOW_32 ^ roundKeys[1]) * ScalarLogitKernels.PHILOX_M1;
        LongVector ofX0InRound1 = LongVector.broadcast(LONGS, c1 & LOW_32 ^ roundKeys[0]);
        LongVector ofX0InRound2 = LongVector.broadcast(LONGS, product1 >>> 32 ^ roundKeys[2]);
        LongVector ofX2InRound2 = LongVector.broadcast(LONGS, product0 & LOW_32 ^ roundKeys[3]);
        LongVector product1InRound1 = LongVector.broadcast(LONGS, product1);
        for (int group = 0; group < numGroups; group += 2) {
            LongVector block = GROUP_LANES.add(firstBlock + group * (WINNER_GROUP >> 2));
            LongVector p1 = block.mul(ScalarLogitKernels.PHILOX_M1);
            LongVector q1 = block.add(WINNER_GROUP >> 2).mul(ScalarLogitKernels.PHILOX_M1);
            LongVector p0 = p1.lanewise(VectorOperators.LSHR, 32)
                    .lanewise(VectorOperators.XOR, ofX0InRound1)
                    .mul(ScalarLogitKernels.PHILOX_M0);
            LongVector q0 = q1.lanewise(VectorOperators.LSHR, 32)
                    .lanewise(VectorOperators.XOR, ofX0InRound1)
                    .mul(ScalarLogitKernels.PHILOX_M0);
            LongVector x0 = p1.and(LOW_32).lanewise(VectorOperators.XOR, ofX0InRound2);
            LongVector y0 = q1.and(LOW_32).lanewise(VectorOperators.XOR, ofX0InRound2);
            LongVector x2 = p0.lanewise(VectorOperators.LSHR, 32).lanewise(VectorOperators.XOR, ofX2InRound2);
            LongVector y2 = q0.lanewise(VectorOperators.LSHR, 32).lanewise(VectorOperators.XOR, ofX2InRound2);
            p1 = product1InRound1;
            q1 = product1InRound1;
            for (int k = 4; k < 2 * ScalarLogitKernels.PHILOX_ROUNDS; k += 2) {
                LongVector key0 = LongVector.broadcast(LONGS, roundKeys[k]);
                LongVector key1 = LongVector.broadcast(LONGS, roundKeys[k + 1]);
                LongVector lowOfP1 = p1.and(LOW_32).lanewise(VectorOperators.XOR, key0);
                LongVector lowOfQ1 = q1.and(LOW_32).lanewise(VectorOperators.XOR, key0);
                LongVector lowOfP0 = p0.and(LOW_32).lanewise(VectorOperators.XOR, key1);
                LongVector lowOfQ0 = q0.and(LOW_32).lanewise(VectorOperators.XOR, key1);
                p0 = x0.mul(ScalarLogitKernels.PHILOX_M0);
                q0 = y0.mul(ScalarLogitKernels.PHILOX_M0);
                p1 = x2.mul(ScalarLogitKernels.PHILOX_M1);
                q1 = y2.mul(ScalarLogitKernels.PHILOX_M1);
                x0 = p1.lanewise(VectorOperators.LSHR, 32).lanewise(VectorOperators.XOR, lowOfP1);
                y0 = q1.lanewise(VectorOperators.LSHR, 32).lanewise(VectorOperators.XOR, lowOfQ1);
                x2 = p0.lanewise(VectorOperators.LSHR, 32).lanewise(VectorOperators.XOR, lowOfP0);
                y2 = q0.lanewise(VectorOperators.LSHR, 32).lanewise(VectorOperators.XOR, lowOfQ0);
            }
            int at = group * (WINNER_GROUP / 2);
            x0.or(p1.lanewise(VectorOperators.LSHL, 32)).intoArray(words, at);
            x2.or(p0.lanewise(VectorOperators.LSHL, 32)).intoArray(words, at + 8);
            y0.or(q1.lanewise(VectorOperators.LSHL, 32)).intoArray(words, at + 16);
            y2.or(q0.lanewise(VectorOperators.LSHL, 32)).intoArray(words, at + 24);
        }
    }

    /** The first group, from firstGroup on, in which an id may win but for minWeight; numGroups when there is none. */
    private int firstOfWords(float[] weights, int firstId, int firstGroup, int numGroups, float bound) {
        for (int group = firstGroup; group < numGroups; group++) {
            int id = firstId + group * WINNER_GROUP;
            FloatVector lower = FloatVector.fromArray(FLOATS, weights, id);
            FloatVector upper = FloatVector.fromArray(FLOATS, weights, id + LANES);
            FloatVector first = lower.blend(FloatVector.fromArray(FLOATS, weights, id + 14), ODD_PAIRS);
            FloatVector second = FloatVector.fromArray(FLOATS, weights, id + 2).blend(upper, ODD_PAIRS);
            int at = group * (WINNER_GROUP / 2);
            IntVector firstHalves = LongVector.fromArray(LONGS, words, at)
                    .reinterpretAsInts()
                    .lanewise(VectorOperators.LSHR, 1)
                    .lanewise(VectorOperators.XOR, 0x7fffffff);
            IntVector secondHalves = LongVector.fromArray(LONGS, words, at + 8)
                    .reinterpretAsInts()
                    .lanewise(VectorOperators.LSHR, 1)
                    .lanewise(VectorOperators.XOR, 0x7fffffff);
            if (firstHalves
                    .convert(VectorOperators.I2F, 0)
                    .compare(VectorOperators.LE, first.mul(bound))
                    .or(secondHalves.convert(VectorOperators.I2F, 0).compare(VectorOperators.LE, second.mul(bound)))
                    .anyTrue()) {
                return group;
            }
        }
        return numGroups;
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
