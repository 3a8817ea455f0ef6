package io.millrace.plan;

/**
 * How many bytes numbers take in memory.
 *
 * @param bytesPerParameter of a weight: 4 for float32, 2 for bfloat16, 1 for 8-bit, 0.5 for 4-bit
 * @param bytesPerKvValue of a key or value in the cache
 */
public record Precision(double bytesPerParameter, double bytesPerKvValue) {

    public static final Precision BFLOAT16 = new Precision(2, 2);
    public static final Precision FLOAT32 = new Precision(4, 4);

    public Precision {
        InvalidPlanException.requirePositive(
                "--bytes-per-parameter", bytesPerParameter, "use 2 for bfloat16, 4 for float32");
        InvalidPlanException.requirePositive(
                "--bytes-per-kv-value", bytesPerKvValue, "use 2 for bfloat16, 4 for float32");
    }

    /** Of the rows between GEMMs: as wide as weights or KV values, but never narrower than 16 bits. */
    public double bytesPerActivation() {
        return Math.max(2, Math.max(bytesPerParameter, bytesPerKvValue));
    }
}
