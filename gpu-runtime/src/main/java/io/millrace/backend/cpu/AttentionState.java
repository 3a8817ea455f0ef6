package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;

/**
 * Folds left over between the levels of an {@link AttentionPlan}: maximum, sums, accumulators and the open group's sums per
 * token and head.
 */
final class AttentionState {
    private final int numQueryHeads;
    private final int headDim;
    private float[] maxima = {};
    private float[] sums = {};
    private float[] accumulators = {};
    private float[] openSums = {};

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
            openSums = new float[accumulators.length];
        }
    }

    /** @param isOpen whether a group is */
    void save(int slot, int firstHead, int numHeads, AttentionRows rows, int row, boolean isOpen) {
        int at = slot * numQueryHeads + firstHead;
        System.arraycopy(rows.maxima, row, maxima, at, numHeads);
        System.arraycopy(rows.sums, row * Kernels.LANES, sums, at * Kernels.LANES, numHeads * Kernels.LANES);
        System.arraycopy(rows.accumulators, row * headDim, accumulators, at * headDim, numHeads * headDim);
        if (isOpen) {
            System.arraycopy(rows.openSums, row * headDim, openSums, at * headDim, numHeads * headDim);
        }
    }

    void load(int slot, int firstHead, int numHeads, AttentionRows rows, int row, boolean isOpen) {
        int at = slot * numQueryHeads + firstHead;
        System.arraycopy(maxima, at, rows.maxima, row, numHeads);
        System.arraycopy(sums, at * Kernels.LANES, rows.sums, row * Kernels.LANES, numHeads * Kernels.LANES);
        System.arraycopy(accumulators, at * headDim, rows.accumulators, row * headDim, numHeads * headDim);
        if (isOpen) {
            System.arraycopy(openSums, at * headDim, rows.openSums, row * headDim, numHeads * headDim);
        }
    }
}
