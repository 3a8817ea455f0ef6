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
}
