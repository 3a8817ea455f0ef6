package io.millrace.kernels;

/** The upper half of a float: 8 bits of exponent, 7 of mantissa. */
public final class Bfloat16 {
    /** 2^-48: the smallest magnitude of attention's factors beside 0. */
    public static final float SMALLEST = 0x1p-48f;

    private Bfloat16() {}

    /** Rounds to nearest, ties to even. NaNs that arithmetic makes stay NaN. */
    public static short round(float value) {
        int bits = Float.floatToRawIntBits(value);
        return (short) ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
    }

    public static float widen(short value) {
        return Float.intBitsToFloat(value << 16);
    }

    /**
     * Rounds what attention multiplies: magnitudes below {@link #SMALLEST} become 0. Products of two such numbers are
     * multiples of 2^-110, and so are their sums: none is ever denormal, which some CPUs' bfloat16 instructions take for 0.
     */
    public static short roundFactor(float value) {
        return Math.abs(value) < SMALLEST ? 0 : round(value);
    }

    /** Two factors, rounded, in one int, so that vector kernels widen both with one load. */
    public static int pair(float low, float high) {
        return (roundFactor(high) << 16) | (roundFactor(low) & 0xffff);
    }

    /** A pair with one half replaced by a factor, rounded. */
    static int put(float value, int pair, boolean isHigh) {
        int bits = roundFactor(value) & 0xffff;
        return isHigh ? pair & 0xffff | bits << 16 : pair & 0xffff0000 | bits;
    }

    public static float low(int pair) {
        return Float.intBitsToFloat(pair << 16);
    }

    public static float high(int pair) {
        return Float.intBitsToFloat(pair & 0xffff0000);
    }

    /** Where element d of a slot's value stands within a block's pairs of values; an even slot has the low half. */
    public static int valuePair(int slot, int d, int headDim) {
        return slot / 2 * headDim + d;
    }
}
