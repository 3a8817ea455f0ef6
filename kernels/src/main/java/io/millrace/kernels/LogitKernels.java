package io.millrace.kernels;

/**
 * Passes over one row of logits. The vectorised kernels and their scalar twin give equal bits on every vector width, in
 * the interpreter as in compiled code: only exactly rounded operations (add, multiply, fused multiply-add, compare) are
 * used, running sums are added up in one order, and maxima do not depend on order. Owns scratch: one thread at a time.
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

    /** Ids that {@link #firstPossibleWinner} looks at together. */
    int WINNER_GROUP = 32;

    /** Most weights of one call of {@link #addMasses}. */
    int MAX_MASS_LENGTH = 1024;

    /** The greatest value; NaN when any value is NaN. */
    float max(float[] values, int offset, int length);

    /** The greatest value; NaN when any value is NaN or infinite. */
    float finiteMax(float[] values, int offset, int length);

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
     * Computes weights[weightsOffset + i] = exp((logits[offset + i] - max) × scale), with a relative error below 2e-7 beyond the rounding
     * of the exponent; exactly 1 at the maximum, exactly 0 for exponents below -87.
     *
     * @param max at least every logit; finite
     * @param scale above 0
     * @return the sum of these weights in double: eight running sums, then a tree, then the remainder
     */
    double expDifferences(
            float[] logits, int offset, int length, float max, float scale, float[] weights, int weightsOffset);

    /**
     * Adds the weights that are at least minWeight to masses[0], and of these the ones whose logit is at least minLogit to
     * masses[1]. Summed in floats (16 running sums), so with relative errors of up to 4e-6; no logit is NaN.
     *
     * @param length at most {@link #MAX_MASS_LENGTH}
     */
    void addMasses(
            float[] logits,
            int offset,
            float[] weights,
            int weightsOffset,
            int length,
            float minWeight,
            float minLogit,
            double[] masses);

    /**
     * Computes Philox4x32-10 blocks (Salmon et al., SC 2011) of counters (c0, c1, firstC2 + g, c3), g = 0 … numBlocks - 1.
     *
     * @param planes receives word w of block g, as an unsigned 32-bit number, at w × planeStride + g
     */
    void philoxBlocks(long key, int c0, int c1, int firstC2, int c3, int numBlocks, long[] planes, int planeStride);

    /**
     * Looks for ids whose noise may be little enough for their weight, without keeping the noise of the others. The number
     * of an id is word id mod 4 of Philox block (c0, c1, id / 4, c3); c = 2^32 - 1 - number. The id may win when
     * floor(c / 2), rounded to a float, is at most bound × weight.
     *
     * <p>A group in which no id may win is never given; one that is given holds an id that may win but for minWeight.
     *
     * @param weights by id
     * @param from first id, a multiple of 4
     * @param minWeight ids that weigh less cannot win: groups of such ids cost next to nothing
     * @param bound above 0; infinity lets every weight above 0 pass
     * @return the first id of the first group of {@link #WINNER_GROUP} ids, counted from the first, in which one may win;
     *     to when there is none
     */
    int firstPossibleWinner(
            long key, int c0, int c1, int c3, float[] weights, int from, int to, float minWeight, float bound);
}
