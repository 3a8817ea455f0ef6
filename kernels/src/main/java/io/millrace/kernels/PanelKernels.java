package io.millrace.kernels;

/**
 * Products of a row by itself with a panel of a bfloat16 matrix. All of its time goes into reading the panel, and a kernel made
 * for that reads it faster than a matrix library, which is made for many rows. Every sum is one chain of fused multiply-adds.
 * The vectorised kernels and their scalar twin give equal bits. An instance is for one thread.
 */
public interface PanelKernels {
    /** The vectorised kernels where the JVM and the CPU have what they need, else the scalar twin. */
    static PanelKernels fastest() {
        return KernelChoice.best().remark().isEmpty() ? VectorKernelsFactory.createPanelKernels() : scalar();
    }

    static PanelKernels scalar() {
        return new ScalarPanelKernels();
    }

    /**
     * Computes sums[sumsOffset + c] = Σ over i &lt; 2 × numPairs of row[rowOffset + i] × element (i, c). The arithmetic is that of the
     * AVX-512 instruction vdpbf16ps: of each pair of depths the second first, pairs in ascending order; but what it flushes to 0
     * (below 2^-126) stays here.
     *
     * @param panel elements (2p, c) and (2p + 1, c) are the lower and the upper half of int c behind firstByte + p × pairBytes
     * @param row of bfloat16 numbers
     * @param numColumns a multiple of 16
     * @throws IndexOutOfBoundsException if panel or arrays are too short
     */
    void multiplyPairs(
            PairMemory panel,
            int firstByte,
            int pairBytes,
            int numPairs,
            float[] row,
            int rowOffset,
            float[] sums,
            int sumsOffset,
            int numColumns);

    /**
     * Computes sums[sumsOffset + c] = Σ over i &lt; numDepths of row[rowOffset + i] × element (i, c), in ascending order, as float32
     * arithmetic has it for widened elements.
     *
     * @param panel elements (i, 2c) and (i, 2c + 1) are the lower and the upper half of int c behind firstByte + i × depthBytes
     * @param row of any numbers
     * @param numColumns a multiple of 16; where 16 remain beside whole 64, 32 are read
     * @throws IndexOutOfBoundsException if panel or arrays are too short
     */
    void multiplyDepths(
            PairMemory panel,
            int firstByte,
            int depthBytes,
            int numDepths,
            float[] row,
            int rowOffset,
            float[] sums,
            int sumsOffset,
            int numColumns);
}
