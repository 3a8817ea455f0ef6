package io.millrace.kernels;

/**
 * 2^x by range reduction to [-1/2, 1/2] and a polynomial of fused multiply-adds; relative error below 1e-7. Java's own
 * exponentials differ between interpreter and compiler, this one does not. Results below 2^-126 are 0.
 */
final class Exp2 {
    static final float LOWEST = -127f;
    static final float HIGHEST = 127f;
    /** See {@link Bfloat16#SMALLEST}; 2^x of anything lower counts as 0. */
    static final float LOWEST_FACTOR = -48f;
    /** 1.5 × 2^23: adding it rounds to an integer in the low bits of the mantissa. */
    static final float ROUNDER = 12582912f;

    // ln(2)^k / k!
    static final float C1 = 0.6931471805599453f;
    static final float C2 = 0.2402265069591007f;
    static final float C3 = 0.05550410866482158f;
    static final float C4 = 0.009618129107628477f;
    static final float C5 = 0.0013333558146428443f;
    static final float C6 = 1.540353039338161e-4f;
    static final float C7 = 1.5252733804059841e-5f;

    private Exp2() {}

    static float of(float x) {
        float y = x < LOWEST ? LOWEST : x;
        y = y > HIGHEST ? HIGHEST : y;
        float rounded = y + ROUNDER;
        float f = y - (rounded - ROUNDER);
        float p = C7;
        p = Math.fma(p, f, C6);
        p = Math.fma(p, f, C5);
        p = Math.fma(p, f, C4);
        p = Math.fma(p, f, C3);
        p = Math.fma(p, f, C2);
        p = Math.fma(p, f, C1);
        p = Math.fma(p, f, 1f);
        return p * Float.intBitsToFloat((Float.floatToRawIntBits(rounded) + 127) << 23);
    }

    /**
     * 2^x of x at most {@link Kernels#SLACK} as a bfloat16 (ties away from 0), with a polynomial as short as that allows;
     * below 2^-48, 0. No step more than needed: the vector twin outgrows what C2 inlines. NaN stays NaN, since the lower
     * bits of those that arithmetic on bfloat16 numbers makes are 0.
     */
    static float toBfloat16(float x) {
        if (x < LOWEST_FACTOR) {
            return 0f;
        }
        float rounded = x + ROUNDER;
        float f = x - (rounded - ROUNDER);
        float p = C5;
        p = Math.fma(p, f, C4);
        p = Math.fma(p, f, C3);
        p = Math.fma(p, f, C2);
        p = Math.fma(p, f, C1);
        p = Math.fma(p, f, 1f);
        int bits = Float.floatToRawIntBits(p) + (Float.floatToRawIntBits(rounded) << 23);
        return Float.intBitsToFloat((bits + 0x8000) & 0xffff0000);
    }
}
