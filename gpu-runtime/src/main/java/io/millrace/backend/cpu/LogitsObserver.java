package io.millrace.backend.cpu;

/** Sees every row of logits before anything is drawn from it; for tests. Called by compute threads, maybe at once. */
interface LogitsObserver {
    LogitsObserver NONE = (row, logits, offset) -> {};

    /** @param row index into the batch's logits rows */
    void observe(int row, float[] logits, int offset);
}
