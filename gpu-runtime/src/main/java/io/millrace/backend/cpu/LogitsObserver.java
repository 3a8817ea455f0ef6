package io.millrace.backend.cpu;

/**
 * Sees every row of logits before anything is drawn from it; for tests and measurements. Called by compute threads, maybe at
 * once; must not change or keep the array.
 */
public interface LogitsObserver {
    /** Looks away. */
    LogitsObserver NONE = (row, logits, offset) -> {};

    /**
     * Takes a row.
     *
     * @param row index into the batch's logits rows
     * @param logits the row's begin at offset, one for each id of the vocabulary
     */
    void observe(int row, float[] logits, int offset);
}
