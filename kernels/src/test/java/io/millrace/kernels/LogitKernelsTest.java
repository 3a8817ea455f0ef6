package io.millrace.kernels;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LogitKernelsTest {
    private final LogitKernels scalar = LogitKernels.scalar();
    private final LogitKernels fastest = LogitKernels.fastest();

    @Test
    void testsRunVectorised() {
        assertInstanceOf(VectorLogitKernels.class, fastest);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 15, 16, 17, 320, 1000, 1024, 49_155})
    void twinsGiveEqualBits(int length) {
        Random random = new Random(length);
        int offset = 3;
        float[] logits = new float[length + 10];
        for (int i = 0; i < logits.length; i++) {
            logits[i] = (float) random.nextGaussian() * 20;
            if (random.nextInt(10) == 0) {
                logits[i] = Float.NEGATIVE_INFINITY;
            }
        }
        float max = scalar.max(logits, offset, length);
        assertEquals(max, fastest.max(logits, offset, length));
        for (float threshold : new float[] {max, max - 1, 0, -Float.MAX_VALUE, Float.POSITIVE_INFINITY}) {
            assertEquals(
                    scalar.firstAtLeast(logits, offset, length, threshold),
                    fastest.firstAtLeast(logits, offset, length, threshold));
            int[] expected = new int[length + 8];
            int[] actual = new int[length + 8];
            int numExpected = scalar.collectAtLeast(logits, offset, length, threshold, 100, expected, 5);
            assertEquals(numExpected, fastest.collectAtLeast(logits, offset, length, threshold, 100, actual, 5));
            assertArrayEquals(
                    Arrays.copyOfRange(expected, 5, 5 + numExpected), Arrays.copyOfRange(actual, 5, 5 + numExpected));
        }
        float[] expected = new float[length];
        float[] actual = new float[length];
        float reference = length == 0 ? 0 : max;
        double expectedSum = scalar.expDifferences(logits, offset, length, reference, 0.7f, expected, 0);
        // Often enough that compiled code runs too, not the interpreter alone.
        for (int i = 0; i < 200; i++) {
            assertEquals(expectedSum, fastest.expDifferences(logits, offset, length, reference, 0.7f, actual, 0), 0);
        }
        assertArrayEquals(bits(expected), bits(actual));
    }

    @Test
    void exponentialIsAccurateAndExactAtTheEnds() {
        assertEquals(1f, ScalarLogitKernels.exp(0f));
        assertEquals(1f, ScalarLogitKernels.exp(-0f));
        assertEquals(0f, ScalarLogitKernels.exp(Float.NEGATIVE_INFINITY));
        assertEquals(0f, ScalarLogitKernels.exp(-87.001f));
        double worst = 0;
        for (float x = 0; x >= -87; x -= 0.001f) {
            worst = Math.max(worst, Math.abs(ScalarLogitKernels.exp(x) / StrictMath.exp(x) - 1));
        }
        assertTrue(worst < 2e-7, "worst relative error " + worst);
    }

    @Test
    void maximumKeepsNotANumberWhereverItStands() {
        for (int at = 0; at < 40; at++) {
            float[] values = new float[40];
            values[at] = Float.NaN;
            assertEquals(Float.NaN, scalar.max(values, 0, 40));
            assertEquals(Float.NaN, fastest.max(values, 0, 40));
        }
    }

    @Test
    void finiteMaximumIsTheGreatestOfBothSigns() {
        Random random = new Random(9);
        for (int round = 0; round < 500; round++) {
            float[] values = new float[1 + random.nextInt(70)];
            float mean = random.nextInt(7) - 3;
            for (int i = 0; i < values.length; i++) {
                values[i] = switch (random.nextInt(6)) {
                    case 0 -> -0f;
                    case 1 -> -Float.MIN_VALUE;
                    default -> -Math.abs((float) random.nextGaussian() + mean);
                };
            }
            if (random.nextBoolean()) {
                values[random.nextInt(values.length)] =
                        random.nextBoolean() ? 0f : random.nextFloat() * Float.MAX_VALUE;
            }
            float max = scalar.max(values, 0, values.length);
            assertEquals(max, scalar.finiteMax(values, 0, values.length), "round " + round);
            assertEquals(max, fastest.finiteMax(values, 0, values.length), "round " + round);
        }
    }

    @Test
    void finiteMaximumIsNoNumberWhereAnyValueIsNotFinite() {
        Random random = new Random(8);
        for (int at = 0; at < 40; at++) {
            float[] values = new float[46];
            for (int i = 0; i < values.length; i++) {
                values[i] = (float) random.nextGaussian() - 3;
            }
            float max = scalar.max(values, 3, 40);
            assertEquals(max, scalar.finiteMax(values, 3, 40));
            assertEquals(max, fastest.finiteMax(values, 3, 40));
            for (float bad : new float[] {Float.NaN, Float.NEGATIVE_INFINITY, Float.POSITIVE_INFINITY}) {
                values[3 + at] = bad;
                assertEquals(Float.NaN, scalar.finiteMax(values, 3, 40), at + ": " + bad);
                assertEquals(Float.NaN, fastest.finiteMax(values, 3, 40), at + ": " + bad);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 15, 16, 33, 1000, LogitKernels.MAX_MASS_LENGTH})
    void massesAreEqualAndNearTheExactSums(int length) {
        Random random = new Random(length);
        float[] logits = new float[length + 3];
        float[] weights = new float[length + 5];
        for (int round = 0; round < 300; round++) {
            double all = 0;
            double above = 0;
            float minWeight = random.nextInt(3) == 0 ? 0 : random.nextFloat();
            float minLogit = random.nextInt(5);
            for (int i = 0; i < length; i++) {
                logits[3 + i] = random.nextInt(5);
                weights[5 + i] = random.nextFloat();
                double weight = weights[5 + i] >= minWeight ? weights[5 + i] : 0;
                all += weight;
                above += logits[3 + i] >= minLogit ? weight : 0;
            }
            double[] expected = {1, 2};
            double[] actual = {1, 2};
            scalar.addMasses(logits, 3, weights, 5, length, minWeight, minLogit, expected);
            fastest.addMasses(logits, 3, weights, 5, length, minWeight, minLogit, actual);
            assertArrayEquals(expected, actual);
            assertEquals(1 + all, actual[0], 4e-6 * all);
            assertEquals(2 + above, actual[1], 4e-6 * above);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 4, 31, 32, 33, 67, 1000, 4098})
    void possibleWinnersAreFoundInTheFirstGroupThatHasOne(int length) {
        Random random = new Random(length);
        float[] weights = new float[length];
        long[] planes = new long[length + 4];
        int numBlocks = (length + 3) / 4;
        for (int round = 0; round < 600; round++) {
            for (int i = 0; i < length; i++) {
                weights[i] = random.nextInt(4) == 0 ? 0 : random.nextFloat();
            }
            long key = random.nextLong();
            int c0 = random.nextInt();
            int c1 = random.nextInt();
            int c3 = random.nextInt(4);
            int from = random.nextInt(length) & -4;
            float minWeight = random.nextBoolean() ? Float.MIN_VALUE : (float) Math.pow(random.nextFloat(), 0.01);
            float bound = random.nextInt(9) == 0
                    ? Float.POSITIVE_INFINITY
                    : 0x1p32f * random.nextFloat() * random.nextFloat() / length;
            scalar.philoxBlocks(key, c0, c1, 0, c3, numBlocks, planes, numBlocks);
            int expected = length;
            for (int group = from; group < length && expected == length; group += LogitKernels.WINNER_GROUP) {
                boolean isHeavy = false;
                boolean mayWin = false;
                for (int id = group; id < Math.min(length, group + LogitKernels.WINNER_GROUP); id++) {
                    long complement = 0xFFFFFFFFL - planes[id % 4 * numBlocks + id / 4];
                    mayWin |= (float) (complement / 2) <= bound * weights[id];
                    isHeavy |= weights[id] >= minWeight;
                }
                expected = isHeavy && mayWin ? group : length;
            }
            assertEquals(
                    expected,
                    scalar.firstPossibleWinner(key, c0, c1, c3, weights, from, length, minWeight, bound),
                    "round " + round);
            assertEquals(
                    expected,
                    fastest.firstPossibleWinner(key, c0, c1, c3, weights, from, length, minWeight, bound),
                    "round " + round);
        }
    }

    @Test
    void philoxGivesRandom123sKnownAnswers() {
        // From kat_vectors of Random123: counter, key, result.
        knownAnswer(0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
        knownAnswer(-1, -1, -1, -1, -1, -1, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
        knownAnswer(
                0x243f6a88,
                0x85a308d3,
                0x13198a2e,
                0x03707344,
                0xa4093822,
                0x299f31d0,
                0xd16cfe09,
                0x94fdcceb,
                0x5001e420,
                0x24126ea1);
    }

    private void knownAnswer(int c0, int c1, int c2, int c3, int k0, int k1, int... expected) {
        long key = (long) k1 << 32 | k0 & 0xFFFFFFFFL;
        for (LogitKernels kernels : new LogitKernels[] {scalar, fastest}) {
            long[] planes = new long[4 * 20];
            kernels.philoxBlocks(key, c0, c1, c2 - 3, c3, 20, planes, 20);
            for (int word = 0; word < 4; word++) {
                assertEquals(expected[word] & 0xFFFFFFFFL, planes[20 * word + 3]);
            }
        }
    }

    @Test
    void philoxTwinsGiveEqualBits() {
        long[] expected = new long[4 * 103];
        long[] actual = new long[4 * 103];
        for (int i = 0; i < 2000; i++) {
            scalar.philoxBlocks(0x123456789abcdef0L + i, i, 7, -50, 1, 101, expected, 103);
            fastest.philoxBlocks(0x123456789abcdef0L + i, i, 7, -50, 1, 101, actual, 103);
            assertArrayEquals(expected, actual);
        }
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToRawIntBits(values[i]);
        }
        return bits;
    }
}
