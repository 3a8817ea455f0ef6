package io.millrace.kernels;

/**
 * Passes over one row of logits. The vectorised kernels and their scalar twin give equal bits on every vector width, in
 * the interpreter as in compiled code: only exactly rounded operations (add, multiply, fused multiply-add, compare) are
 * used, one lane never meets another, and maxima do not depend on order. Stateless; any thread.
 */
public interface LogitKernels {

    /**
     * The vectorised kernels where the JVM has the Vector API module (--add-modules jdk.incubator.vector) and the CPU
     * vectors of at least 256 bits, else the scalar twin.
     */
    static LogitKernels fastest() {
        boolean isVectorised =
                ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent() && VectorLogitKernels.isFast();
        return isVectorised ? new VectorLogitKernels() : scalar();
    }

    static LogitKernels scalar() {
        return new ScalarLogitKernels();
    }

    /** The greatest value; NaN when any value is NaN. */
    float max(float[] values, int offset, int length);

    /** The first index, counted from offset, whose value is at least the threshold; -1 when there is none. */
    int firstAtLeast(float[] values, int offset, int length, float threshold);

    /**
     * Collects, in ascending order, the indices whose value is at least the threshold (no NaN anywhere, not both infinite).
     *
     * @param firstIndex the index that the value at offset has
     * @param indices receives them from destination on; must have room for length + 1 more
     * @return how many were collected
     */
    int collectAtLeast(
            float[] values, int offset, int length, float threshold, int firstIndex, int[] indices, int destination);

    /**
     * Computes weights[i] = exp((logits[offset + i] - max) × scale), with a relative error below 2e-7 beyond the rounding
     * of the exponent; exactly 1 at the maximum, exactly 0 for exponents below -87.
     *
     * @param max at least every logit; finite
     * @param scale above 0
     */
    void expDifferences(float[] logits, int offset, int length, float max, float scale, float[] weights);

    /**
     * Computes Philox4x32-10 blocks (Salmon et al., SC 2011) of counters (c0, c1, firstC2 + g, c3), g = 0 … numBlocks - 1.
     *
     * @param planes receives word w of block g, as an unsigned 32-bit number, at w × planeStride + g
     */
    void philoxBlocks(long key, int c0, int c1, int firstC2, int c3, int numBlocks, long[] planes, int planeStride);
}
