package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;

/** Folds left over between the levels of an {@link AttentionPlan}: maximum, sums and accumulators per token and head. */
final class AttentionState {
    private final int numQueryHeads;
    private final int headDim;
    private float[] maxima = {};
    private float[] sums = {};
    private float[] accumulators = {};

    AttentionState(int numQueryHeads, int headDim) {
        this.numQueryHeads = numQueryHeads;
        this.headDim = headDim;
    }

    /** Makes room; the engine thread, between steps. */
    void ensureSlots(int numSlots) {
        int heads = Math.multiplyExact(numSlots, numQueryHeads);
        if (maxima.length < heads) {
            int capacity = Math.max(heads, Math.min(2 * maxima.length, Integer.MAX_VALUE / (8 * headDim)));
            maxima = new float[capacity];
            sums = new float[Math.multiplyExact(capacity, Kernels.LANES)];
            accumulators = new float[Math.multiplyExact(capacity, headDim)];
        }
    }

    void save(int slot, int firstHead, int numHeads, float[] m, float[] s, float[] a, int row) {
        int at = slot * numQueryHeads + firstHead;
        System.arraycopy(m, row, maxima, at, numHeads);
        System.arraycopy(s, row * Kernels.LANES, sums, at * Kernels.LANES, numHeads * Kernels.LANES);
        System.arraycopy(a, row * headDim, accumulators, at * headDim, numHeads * headDim);
    }

    void load(int slot, int firstHead, int numHeads, float[] m, float[] s, float[] a, int row) {
        int at = slot * numQueryHeads + firstHead;
        System.arraycopy(maxima, at, m, row, numHeads);
        System.arraycopy(sums, at * Kernels.LANES, s, row * Kernels.LANES, numHeads * Kernels.LANES);
        System.arraycopy(accumulators, at * headDim, a, row * headDim, numHeads * headDim);
    }
}
