package io.millrace.kernels;

/** The plain twin of {@link VectorLogitKernels}; also does that one's remainders. */
final class ScalarLogitKernels implements LogitKernels {
    // exp(x) = 2^n × exp(r), n = round(x / ln 2), |r| <= ln 2 / 2; the polynomial of exp(r) is that of Cephes' expf.
    static final float MIN_EXPONENT = -87f;
    static final float LOG2_E = 1.44269504f;
    /** 1.5 × 2^23: adding it rounds to a whole number, which then stands in the low bits. */
    static final float ROUNDER = 12582912f;

    static final float MINUS_LN2_HIGH = -0.693359375f;
    static final float MINUS_LN2_LOW = 2.12194440e-4f;
    static final float P5 = 1.9875691500e-4f;
    static final float P4 = 1.3981999507e-3f;
    static final float P3 = 8.3334519073e-3f;
    static final float P2 = 4.1665795894e-2f;
    static final float P1 = 1.6666665459e-1f;
    static final float P0 = 5.0000001201e-1f;

    static final long PHILOX_M0 = 0xD2511F53L;
    static final long PHILOX_M1 = 0xCD9E8D57L;
    static final int PHILOX_W0 = 0x9E3779B9;
    static final int PHILOX_W1 = 0xBB67AE85;
    static final int PHILOX_ROUNDS = 10;
    static final long LOW_32 = 0xFFFFFFFFL;

    /** Running sums of weights: one for each remainder of the index. */
    static final int WEIGHT_SUMS = 16;
    /** From a float's mantissa and exponent to a double's. */
    static final int WIDENING_SHIFT = 29;

    static final long WIDENING_BIAS = 896L << 52;

    /** Running sums of masses. */
    static final int MASS_SUMS = 16;

    @Override
    public float max(float[] values, int offset, int length) {
        float max = Float.NEGATIVE_INFINITY;
        for (int i = offset; i < offset + length; i++) {
            max = Math.max(max, values[i]);
        }
        return max;
    }

    @Override
    public float finiteMax(float[] values, int offset, int length) {
        float max = Float.NEGATIVE_INFINITY;
        float notFinite = 0;
        for (int i = offset; i < offset + length; i++) {
            max = Math.max(max, values[i]);
            notFinite += values[i] - values[i];
        }
        return notFinite == 0 ? max : Float.NaN;
    }

    @Override
    public int firstAtLeast(float[] values, int offset, int length, float threshold) {
        for (int i = 0; i < length; i++) {
            if (values[offset + i] >= threshold) {
                return i;
            }
        }
        return -1;
    }

    @Override
    public int collectAtLeast(
            float[] values, int offset, int length, float threshold, int firstIndex, int[] indices, int destination) {
        int end = destination;
        for (int i = 0; i < length; i++) {
            indices[end] = firstIndex + i;
            end += isAtLeast(values[offset + i], threshold);
        }
        return end - destination;
    }

    /** 1 if value >= threshold else 0 (neither NaN), without the branch that would often be mispredicted. */
    static int isAtLeast(float value, float threshold) {
        return 1 - (Float.floatToRawIntBits(value - threshold + 0f) >>> 31); // + 0 makes -0 positive
    }

    @Override
    public double expDifferences(
            float[] logits, int offset, int length, float max, float scale, float[] weights, int weightsOffset) {
        int grouped = length & -WEIGHT_SUMS;
        for (int i = 0; i < grouped; i++) {
            weights[weightsOffset + i] = exp((logits[offset + i] - max) * scale);
        }
        double sum = 0;
        for (int i = 0; i < WEIGHT_SUMS; i++) {
            sum += running(weights, weightsOffset + i, grouped - i);
        }
        return addRestOfWeights(logits, offset, grouped, length, max, scale, weights, weightsOffset, sum);
    }

    private static double running(float[] weights, int offset, int length) {
        double sum = 0;
        for (int i = offset; i < offset + length; i += WEIGHT_SUMS) {
            sum += widen(weights[i]);
        }
        return sum;
    }

    /** Computes the weights behind the last whole group, and adds them to the sum. */
    static double addRestOfWeights(
            float[] logits,
            int offset,
            int from,
            int to,
            float max,
            float scale,
            float[] weights,
            int weightsOffset,
            double sum) {
        double total = sum;
        for (int i = from; i < to; i++) {
            float weight = exp((logits[offset + i] - max) * scale);
            weights[weightsOffset + i] = weight;
            total += weight;
        }
        return total;
    }

    /** A weight in double, by its bits: a weight of 0 becomes 2^-127, which no sum of a row's weights notices. */
    private static double widen(float weight) {
        return Double.longBitsToDouble(((long) Float.floatToRawIntBits(weight) << WIDENING_SHIFT) + WIDENING_BIAS);
    }

    static float exp(float x) {
        if (!(x >= MIN_EXPONENT)) {
            return 0;
        }
        float rounded = Math.fma(x, LOG2_E, ROUNDER);
        float n = rounded - ROUNDER;
        float r = Math.fma(n, MINUS_LN2_LOW, Math.fma(n, MINUS_LN2_HIGH, x));
        float p = Math.fma(P5, r, P4);
        p = Math.fma(p, r, P3);
        p = Math.fma(p, r, P2);
        p = Math.fma(p, r, P1);
        p = Math.fma(p, r, P0);
        p = Math.fma(p, r * r, r) + 1f;
        float powerOfTwo = Float.intBitsToFloat((Float.floatToRawIntBits(rounded) << 23) + 0x3f800000);
        return p * powerOfTwo;
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
        int grouped = length - length % MASS_SUMS;
        for (int lane = 0; lane < MASS_SUMS; lane++) {
            float all = 0;
            float above = 0;
            for (int i = lane; i < grouped; i += MASS_SUMS) {
                float weight = weights[weightsOffset + i];
                if (weight >= minWeight) {
                    all += weight;
                    above += logits[offset + i] >= minLogit ? weight : 0;
                }
            }
            masses[0] += all;
            masses[1] += above;
        }
        addRestOfMasses(logits, offset, weights, weightsOffset, grouped, length, minWeight, minLogit, masses);
    }

    static void addRestOfMasses(
            float[] logits,
            int offset,
            float[] weights,
            int weightsOffset,
            int from,
            int to,
            float minWeight,
            float minLogit,
            double[] masses) {
        for (int i = from; i < to; i++) {
            float weight = weights[weightsOffset + i];
            if (weight >= minWeight) {
                masses[0] += weight;
                masses[1] += logits[offset + i] >= minLogit ? weight : 0;
            }
        }
    }

    @Override
    public int firstPossibleWinner(
            long key, int c0, int c1, int c3, float[] weights, int from, int to, float minWeight, float bound) {
        for (int group = from; group < to; group += WINNER_GROUP) {
            int end = Math.min(group + WINNER_GROUP, to);
            if (firstAtLeast(weights, group, end - group, minWeight) < 0) {
                continue;
            }
            for (int id = group; id < end; id += 4) {
                if (blockMayWin(key, c0, c1, c3, weights, id, Math.min(4, end - id), bound)) {
                    return group;
                }
            }
        }
        return to;
    }

    /** Philox with its state in variables, for one block of up to four ids. */
    private static boolean blockMayWin(
            long key, int c0, int c1, int c3, float[] weights, int id, int numIds, float bound) {
        long x0 = c0 & LOW_32;
        long x1 = c1 & LOW_32;
        long x2 = id >> 2;
        long x3 = c3 & LOW_32;
        int k0 = (int) key;
        int k1 = (int) (key >>> 32);
        for (int round = 0; round < PHILOX_ROUNDS; round++) {
            long product0 = PHILOX_M0 * x0;
            long product1 = PHILOX_M1 * x2;
            x0 = (product1 >>> 32) ^ x1 ^ (k0 & LOW_32);
            x1 = product1 & LOW_32;
            x2 = (product0 >>> 32) ^ x3 ^ (k1 & LOW_32);
            x3 = product0 & LOW_32;
            k0 += PHILOX_W0;
            k1 += PHILOX_W1;
        }
        return mayWin(x0, weights[id], bound)
                || numIds > 1 && mayWin(x1, weights[id + 1], bound)
                || numIds > 2 && mayWin(x2, weights[id + 2], bound)
                || numIds > 3 && mayWin(x3, weights[id + 3], bound);
    }

    private static boolean mayWin(long word, float weight, float bound) {
        return (float) (~(int) word >>> 1) <= bound * weight;
    }

    @Override
    public void philoxBlocks(
            long key, int c0, int c1, int firstC2, int c3, int numBlocks, long[] planes, int planeStride) {
        for (int g = 0; g < numBlocks; g++) {
            philoxBlock(key, c0, c1, firstC2 + g, c3, planes, g, planeStride);
        }
    }

    static void philoxBlock(long key, int c0, int c1, int c2, int c3, long[] planes, int index, int planeStride) {
        long x0 = c0 & LOW_32;
        long x1 = c1 & LOW_32;
        long x2 = c2 & LOW_32;
        long x3 = c3 & LOW_32;
        int k0 = (int) key;
        int k1 = (int) (key >>> 32);
        for (int round = 0; round < PHILOX_ROUNDS; round++) {
            long product0 = PHILOX_M0 * x0;
            long product1 = PHILOX_M1 * x2;
            x0 = (product1 >>> 32) ^ x1 ^ (k0 & LOW_32);
            x1 = product1 & LOW_32;
            x2 = (product0 >>> 32) ^ x3 ^ (k1 & LOW_32);
            x3 = product0 & LOW_32;
            k0 += PHILOX_W0;
            k1 += PHILOX_W1;
        }
        planes[index] = x0;
        planes[planeStride + index] = x1;
        planes[2 * planeStride + index] = x2;
        planes[3 * planeStride + index] = x3;
    }
}
