package io.millrace.kernels;

/**
 * 2^x by range reduction to [-1/2, 1/2] and a polynomial of fused multiply-adds; relative error below 1e-7. Java's own
 * exponentials differ between interpreter and compiler, this one does not. Results below 2^-126 are 0.
 */
final class Exp2 {
    static final float LOWEST = -127f;
    static final float HIGHEST = 127f;
    /** How far scores may lie below the maximum; powers of anything farther count as 0. */
    static final float FARTHEST = 127f;
    /** The same of powers that are rounded to bfloat16, see {@link Bfloat16#SMALLEST}. */
    static final float FARTHEST_OF_FACTORS = 48f;
    /** 1.5 × 2^23: adding it rounds to an integer in the low bits of the mantissa. */
    static final float ROUNDER = 12582912f;
    /** The same, plus the exponent bits of 1: of {@link #FARTHEST}, 0 is left. */
    static final float ROUNDER_OF_POWERS = ROUNDER + FARTHEST;
    /** The same, less the exponent bits of what coefficients are scaled by: of {@link #FARTHEST_OF_FACTORS}, 0 is left. */
    static final float ROUNDER_OF_FACTORS = ROUNDER + FARTHEST_OF_FACTORS;

    // ln(2)^k / k!
    static final float C1 = 0.6931471805599453f;
    static final float C2 = 0.2402265069591007f;
    static final float C3 = 0.05550410866482158f;
    static final float C4 = 0.009618129107628477f;
    static final float C5 = 0.0013333558146428443f;
    static final float C6 = 1.540353039338161e-4f;
    static final float C7 = 1.5252733804059841e-5f;

    // Of degree 3 for 2^(1/2 - f), f from -1/2 to 1/2, with the least relative error (Remez; equal at both ends). Times
    // 2^78, which powers of two whose exponent bits are 48 less a rounded distance take back. B0 rounds to bfloat16,
    // too.
    static final float B3 = -0.07802452f * 0x1p78f;
    static final float B2 = 0.34310395f * 0x1p78f;
    static final float B1 = -0.9804191f * 0x1p78f;
    static final float B0 = (1.4141119f + 0x1p-8f) * 0x1p78f;

    private Exp2() {}

    static float of(float x) {
        float y = x < LOWEST ? LOWEST : x;
        y = y > HIGHEST ? HIGHEST : y;
        float rounded = y + ROUNDER;
        float f = y - (rounded - ROUNDER);
        return ofFraction(f) * Float.intBitsToFloat((Float.floatToRawIntBits(rounded) + 127) << 23);
    }

    private static float ofFraction(float f) {
        float p = C7;
        p = Math.fma(p, f, C6);
        p = Math.fma(p, f, C5);
        p = Math.fma(p, f, C4);
        p = Math.fma(p, f, C3);
        p = Math.fma(p, f, C2);
        p = Math.fma(p, f, C1);
        return Math.fma(p, f, 1f);
    }

    /**
     * 2^(score - maximum), at most 2 to the {@link Kernels#SLACK}; below 2^-126 about 0. NaN stays NaN. Of the distance rather than
     * the difference, which the vector twin limits by one instruction.
     */
    static float ofScore(float score, float maximum) {
        float y = maximum - score;
        y = y > FARTHEST ? FARTHEST : y;
        float rounded = ROUNDER_OF_POWERS - y;
        float f = ROUNDER_OF_POWERS - rounded - y;
        return ofFraction(f) * Float.intBitsToFloat(Float.floatToRawIntBits(rounded) << 23);
    }

    /**
     * 2^(score - maximum), at most 2 to the {@link Kernels#SLACK}, as a bfloat16 number (ties away from 0); below 2^-48, 0. NaN
     * stays NaN, since the lower bits of those that arithmetic on bfloat16 numbers makes are 0. Relative error before
     * rounding: 8e-5, and none to speak of at whole powers. Every step counts: the vector twin does this for each position.
     */
    static float toBfloat16(float score, float maximum) {
        // From half a unit below, what remains is in [0, 1] and its power in [1, 2], where bfloat16 has one unit.
        float y = maximum - 0.5f - score;
        y = y > FARTHEST_OF_FACTORS ? FARTHEST_OF_FACTORS : y;
        float rounded = ROUNDER_OF_FACTORS - y;
        float f = y - (ROUNDER_OF_FACTORS - rounded);
        float p = Math.fma(B3, f, B2);
        p = Math.fma(p, f, B1);
        p = Math.fma(p, f, B0);
        float power = p * Float.intBitsToFloat(Float.floatToRawIntBits(rounded) << 23);
        return Float.intBitsToFloat(Float.floatToRawIntBits(power) & 0xffff0000);
    }
}
