package io.millrace.kernels;

/** The upper half of a float: 8 bits of exponent, 7 of mantissa. */
public final class Bfloat16 {

    private Bfloat16() {}

    /** Rounds to nearest, ties to even. NaNs that arithmetic makes stay NaN. */
    public static short round(float value) {
        int bits = Float.floatToRawIntBits(value);
        return (short) ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
    }

    public static float widen(short value) {
        return Float.intBitsToFloat(value << 16);
    }

    /** Two rounded values in one int, so that vector kernels widen both with one load. */
    public static int pair(float low, float high) {
        return (round(high) << 16) | (round(low) & 0xffff);
    }

    public static float low(int pair) {
        return Float.intBitsToFloat(pair << 16);
    }

    public static float high(int pair) {
        return Float.intBitsToFloat(pair & 0xffff0000);
    }

    /** Where elements i and i + half of a slot's value stand within a block's pairs of values, see {@link Kernels}. */
    public static int valuePair(int slot, int i, int half) {
        int group = i / Kernels.BLOCK_SIZE;
        int width = Math.min(Kernels.BLOCK_SIZE, half - group * Kernels.BLOCK_SIZE);
        return group * Kernels.BLOCK_SIZE * Kernels.BLOCK_SIZE + slot * width + i % Kernels.BLOCK_SIZE;
    }
}
