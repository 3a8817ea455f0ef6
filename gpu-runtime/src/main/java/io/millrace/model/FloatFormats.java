package io.millrace.model;

/** Conversions between float32 and the 16-bit formats, as plain integer arithmetic (JDK 17 has none of its own). */
final class FloatFormats {
    private FloatFormats() {}

    static float fromBfloat16(short bits) {
        return Float.intBitsToFloat(bits << 16);
    }

    /** Rounds to nearest, ties to even. NaN stays NaN; overflow goes to infinity. */
    static short toBfloat16(float value) {
        int bits = Float.floatToRawIntBits(value);
        if ((bits & 0x7fffffff) > 0x7f800000) {
            return (short) ((bits >>> 16) | 0x40); // keep a NaN whose payload sits in the dropped bits
        }
        return (short) ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
    }

    static float fromFloat16(short half) {
        int sign = (half & 0x8000) << 16;
        int exponent = (half >>> 10) & 0x1f;
        int fraction = half & 0x3ff;
        if (exponent == 0) {
            float magnitude = fraction * 0x1p-24f; // zero and subnormals; exact
            return sign == 0 ? magnitude : -magnitude;
        }
        if (exponent == 31) {
            return Float.intBitsToFloat(sign | 0x7f800000 | fraction << 13);
        }
        return Float.intBitsToFloat(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    }
}
