package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.kernels.Bfloat16;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KvQuantizerTest {
    private static final int HEAD_DIM = 20;
    private static final int UNIT = 2 * 16 * HEAD_DIM;
    private static final KvLayout LAYOUT = new KvLayout(1, 1, HEAD_DIM, 16, 4);

    private final KvQuantizer quantizer = new KvQuantizer(HEAD_DIM);

    /** Finite floats of every exponent, denormals, zeros of both signs, and rows that span little or much. */
    static float[] unit(SplittableRandom random, boolean isHalf) {
        float[] unit = new float[UNIT];
        int exponent = random.nextInt(0, 255);
        int spread = random.nextInt(1, 40);
        for (int i = 0; i < UNIT; i++) {
            int e = switch (random.nextInt(6)) {
                case 0 -> random.nextInt(0, 255);
                case 1 -> 0;
                default -> Math.min(254, Math.max(0, exponent - random.nextInt(spread)));
            };
            int mantissa = random.nextInt(8) == 0 ? 0 : random.nextInt() & 0x7fffff;
            int bits = (random.nextInt() & 0x80000000) | e << 23 | mantissa;
            unit[i] = Float.intBitsToFloat(isHalf ? bits & 0xffff0000 : bits);
        }
        if (random.nextInt(10) == 0) {
            unit[random.nextInt(UNIT)] = isHalf ? Bfloat16.widen((short) 0x7f7f) : Float.MAX_VALUE;
        }
        return unit;
    }

    private static float[] stored(float[] unit, boolean isHalf) {
        float[] stored = unit.clone();
        for (int i = 0; isHalf && i < UNIT; i++) {
            stored[i] = Bfloat16.widen(Bfloat16.round(unit[i]));
        }
        return stored;
    }

    private float[] requantized(float[] unit, KvFormat format, boolean isHalf) {
        float[] rounded = unit.clone();
        quantizer.requantize(rounded, format);
        return stored(rounded, isHalf);
    }

    private float[] writtenAndRead(float[] unit, KvFormat format, boolean isHalf) {
        byte[] bytes = new byte[3 + LAYOUT.unitBytes(format)];
        quantizer.write(unit, format, bytes, 3);
        float[] read = new float[UNIT];
        quantizer.read(bytes, 3, format, read);
        return stored(read, isHalf);
    }

    @ParameterizedTest
    @CsvSource({"INT8,false", "INT8,true", "INT4,false", "INT4,true"})
    void roundingTwiceIsRoundingOnce(KvFormat format, boolean isHalf) {
        for (int seed = 0; seed < 4000; seed++) {
            float[] unit = unit(new SplittableRandom(seed), isHalf);
            float[] once = requantized(unit, format, isHalf);
            String what = "seed " + seed;
            assertSameBits(once, writtenAndRead(unit, format, isHalf), what);
            assertSameBits(once, requantized(once, format, isHalf), what);
            assertSameBits(once, writtenAndRead(once, format, isHalf), what);
        }
    }

    /** Every bfloat16 as a row's largest number, beside every multiple of its scale. */
    @ParameterizedTest
    @CsvSource({"INT8,127", "INT4,7"})
    void everyHalfCanBeTheLargest(KvFormat format, int levels) {
        for (int bits = 0; bits < 0x7f80; bits++) {
            float most = Bfloat16.widen((short) bits);
            float scale = KvQuantizer.scale(Float.floatToRawIntBits(most), levels);
            float inverse = KvQuantizer.inverse(scale);
            for (int n = 0; n <= levels && scale > 0; n++) {
                float rounded = Bfloat16.widen(Bfloat16.round(n * scale));
                assertEquals(n, KvQuantizer.round(rounded, inverse));
                assertEquals(-n, KvQuantizer.round(-rounded, inverse));
            }
            if (scale > 0) {
                assertEquals(most, Bfloat16.widen(Bfloat16.round(levels * scale)));
            } else {
                assertTrue(most < 0x1p-103f, "flushed " + most);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"INT8,127", "INT4,7"})
    void theErrorIsAtMostHalfAStep(KvFormat format, int levels) {
        for (int seed = 0; seed < 200; seed++) {
            SplittableRandom random = new SplittableRandom(seed);
            float[] unit = new float[UNIT];
            for (int i = 0; i < UNIT; i++) {
                unit[i] = (float) random.nextDouble(-3, 3);
            }
            float[] rounded = requantized(unit, format, false);
            for (int row = 0; row < 32; row++) {
                float most = 0;
                for (int d = 0; d < HEAD_DIM; d++) {
                    most = Math.max(most, Math.abs(unit[at(row, d)]));
                }
                for (int d = 0; d < HEAD_DIM; d++) {
                    assertEquals(unit[at(row, d)], rounded[at(row, d)], most / levels * 0.501);
                }
            }
        }
    }

    /** Where number d of a row stands: rows 0 to 15 are keys, 16 to 31 values. */
    private static int at(int row, int d) {
        return row < 16 ? d * 16 + row : 16 * HEAD_DIM + (row - 16) * HEAD_DIM + d;
    }

    @ParameterizedTest
    @CsvSource({"INT8,false", "INT8,true", "INT4,false", "INT4,true"})
    void aRowThatIsNotFiniteBecomesNanAndNoOther(KvFormat format, boolean isHalf) {
        for (float poison : new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
            float[] unit = unit(new SplittableRandom(5), isHalf);
            float[] clean = requantized(unit, format, isHalf);
            unit[at(3, 7)] = poison;
            unit[at(21, 1)] = poison;
            float[] once = requantized(unit, format, isHalf);
            for (int row = 0; row < 32; row++) {
                for (int d = 0; d < HEAD_DIM; d++) {
                    float expected = row == 3 || row == 21 ? Float.NaN : clean[at(row, d)];
                    assertEquals(expected, once[at(row, d)]);
                }
            }
            assertSameBits(once, requantized(once, format, isHalf), "twice");
            assertSameBits(once, writtenAndRead(unit, format, isHalf), "written");
        }
    }

    @Test
    void sizesAreTheLayouts() {
        assertEquals(UNIT + 128, LAYOUT.unitBytes(KvFormat.INT8));
        assertEquals(UNIT / 2 + 128, LAYOUT.unitBytes(KvFormat.INT4));
    }

    private static void assertSameBits(float[] expected, float[] actual, String what) {
        int[] a = new int[expected.length];
        int[] b = new int[actual.length];
        for (int i = 0; i < a.length; i++) {
            a[i] = Float.floatToRawIntBits(expected[i]);
            b[i] = Float.floatToRawIntBits(actual[i]);
        }
        assertArrayEquals(a, b, what);
    }
}
