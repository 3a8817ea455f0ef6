package io.millrace.backend.cpu;

import io.millrace.backend.KvFormat;
import io.millrace.kernels.Kernels;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * Numbers of a KV unit to and from few bits, symmetric around 0, with one scale for each token's key and each token's value
 * in a head: n = round(x / scale), x' = n × scale. A scale is largest |x| / 127 (or / 7), cut to 16 significant bits. Hence
 * n × scale is exact in float32, the largest number of a row keeps n = ±127, a second rounding finds the same scale and the
 * same n, and x' rounded to bfloat16 is less than half a step away from n × scale: rounding twice is rounding once, bit for
 * bit, in both number formats of the pool.
 *
 * <p>Rows whose scale would be below 2^-110 become 0; rows with an infinity or NaN become NaN, so that the sequence they
 * belong to is found out when its logits are looked at, as without rounding.
 *
 * <p>Has scratch of its own: one thread.
 */
final class KvQuantizer {
    static final int INT8_LEVELS = 127;
    static final int INT4_LEVELS = 7;

    private static final int SLOTS = Kernels.BLOCK_SIZE;
    private static final float LEAST_SCALE = 0x1p-110f;

    /** Adding and subtracting it rounds to the nearest integer, ties to even. */
    private static final float ROUND = 0x1.8p23f;

    private final int headDim;
    private final int[] largest = new int[2 * SLOTS];
    private final float[] scales = new float[2 * SLOTS];
    private final float[] inverses = new float[2 * SLOTS];
    private final byte[] numbers;

    KvQuantizer(int headDim) {
        this.headDim = headDim;
        this.numbers = new byte[2 * SLOTS * headDim];
    }

    /** The scale of a row, from the bits of its largest absolute number. */
    static float scale(int largestBits, int levels) {
        if (largestBits >= 0x7f800000) {
            return Float.NaN;
        }
        float exact = Float.intBitsToFloat(largestBits) / levels;
        float cut = Float.intBitsToFloat(Float.floatToRawIntBits(exact) & 0xffffff00);
        return cut < LEAST_SCALE ? 0 : cut;
    }

    static float inverse(float scale) {
        return scale == 0 ? 0 : 1 / scale;
    }

    /** The number nearest to x / scale; 0 for NaN. */
    static byte round(float x, float inverse) {
        return (byte) ((int) (x * inverse + ROUND) - (int) ROUND);
    }

    /**
     * Writes a unit in a lossy format.
     *
     * @param unit keys [headDim][slot], then values [slot][headDim]
     */
    void write(float[] unit, KvFormat format, byte[] target, int offset) {
        quantize(unit, format == KvFormat.INT8 ? INT8_LEVELS : INT4_LEVELS);
        ByteBuffer.wrap(target, offset, scales.length * Float.BYTES)
                .order(ByteOrder.LITTLE_ENDIAN)
                .asFloatBuffer()
                .put(scales);
        int at = offset + scales.length * Float.BYTES;
        if (format == KvFormat.INT8) {
            System.arraycopy(numbers, 0, target, at, numbers.length);
            return;
        }
        for (int i = 0; i < numbers.length / 2; i++) {
            target[at + i] = (byte) (numbers[2 * i] & 15 | numbers[2 * i + 1] << 4);
        }
    }

    /** Reads what {@link #write} wrote. */
    void read(byte[] source, int offset, KvFormat format, float[] unit) {
        ByteBuffer.wrap(source, offset, scales.length * Float.BYTES)
                .order(ByteOrder.LITTLE_ENDIAN)
                .asFloatBuffer()
                .get(scales);
        int at = offset + scales.length * Float.BYTES;
        if (format == KvFormat.INT8) {
            System.arraycopy(source, at, numbers, 0, numbers.length);
        } else {
            for (int i = 0; i < numbers.length / 2; i++) {
                byte pair = source[at + i];
                numbers[2 * i] = (byte) ((byte) (pair << 4) >> 4);
                numbers[2 * i + 1] = (byte) (pair >> 4);
            }
        }
        dequantize(unit);
    }

    /** Leaves the numbers that a write and a read would. */
    void requantize(float[] unit, KvFormat format) {
        quantize(unit, format == KvFormat.INT8 ? INT8_LEVELS : INT4_LEVELS);
        dequantize(unit);
    }

    private void quantize(float[] unit, int levels) {
        findLargest(unit);
        for (int row = 0; row < scales.length; row++) {
            scales[row] = scale(largest[row], levels);
            inverses[row] = inverse(scales[row]);
        }
        int values = SLOTS * headDim;
        for (int at = 0; at < values; at += SLOTS) {
            for (int slot = 0; slot < SLOTS; slot++) {
                numbers[at + slot] = round(unit[at + slot], inverses[slot]);
            }
        }
        for (int slot = 0; slot < SLOTS; slot++) {
            int start = values + slot * headDim;
            float inverse = inverses[SLOTS + slot];
            for (int d = 0; d < headDim; d++) {
                numbers[start + d] = round(unit[start + d], inverse);
            }
        }
    }

    /** Bits of absolute floats order as the floats do, with infinity and NaN on top. */
    private void findLargest(float[] unit) {
        Arrays.fill(largest, 0);
        int values = SLOTS * headDim;
        for (int at = 0; at < values; at += SLOTS) {
            for (int slot = 0; slot < SLOTS; slot++) {
                largest[slot] = Math.max(largest[slot], Float.floatToRawIntBits(unit[at + slot]) & 0x7fffffff);
            }
        }
        for (int slot = 0; slot < SLOTS; slot++) {
            int start = values + slot * headDim;
            int most = 0;
            for (int d = 0; d < headDim; d++) {
                most = Math.max(most, Float.floatToRawIntBits(unit[start + d]) & 0x7fffffff);
            }
            largest[SLOTS + slot] = most;
        }
    }

    private void dequantize(float[] unit) {
        int values = SLOTS * headDim;
        for (int at = 0; at < values; at += SLOTS) {
            for (int slot = 0; slot < SLOTS; slot++) {
                unit[at + slot] = numbers[at + slot] * scales[slot];
            }
        }
        for (int slot = 0; slot < SLOTS; slot++) {
            int start = values + slot * headDim;
            float scale = scales[SLOTS + slot];
            for (int d = 0; d < headDim; d++) {
                unit[start + d] = numbers[start + d] * scale;
            }
        }
    }
}
