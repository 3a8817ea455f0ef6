package io.millrace.operators.inference;

import io.millrace.schemas.RequestProgress;

/**
 * What a start took over from the checkpoint it began with, and from which checkpoint on it has got further: with everything
 * that had begun before, and with something at all. Task thread only.
 */
final class TakenOver {
    private long numRequests;
    private long numTokens;
    private int numBegunWithoutNews; // taken over with progress, and not a token further yet
    private boolean drewTokens;
    private long firstCheckpointWithProgress = Long.MAX_VALUE;

    /** @param progress of the request taken over; null if it had not begun */
    void add(RequestProgress progress) {
        numRequests++;
        if (progress != null) {
            numBegunWithoutNews++;
            progress.getSamples().forEach(s -> numTokens += s.getTokenIds().remaining() / Integer.BYTES);
        }
    }

    /** The entry drew tokens. */
    void drewTokens(LedgerEntry entry) {
        drewTokens = true;
        settled(entry);
    }

    /** The entry got further, or ended: it is not waited for any more. */
    void settled(LedgerEntry entry) {
        numBegunWithoutNews -= entry.takeBegun() ? 1 : 0;
    }

    void checkpointTaken(long checkpointId) {
        if (drewTokens && numBegunWithoutNews == 0) {
            firstCheckpointWithProgress = Math.min(firstCheckpointWithProgress, checkpointId);
        }
    }

    boolean hasProgress(long checkpointId) {
        return checkpointId >= firstCheckpointWithProgress;
    }

    /** Requests in flight. */
    long numRequests() {
        return numRequests;
    }

    /** Output tokens of theirs. */
    long numTokens() {
        return numTokens;
    }
}
