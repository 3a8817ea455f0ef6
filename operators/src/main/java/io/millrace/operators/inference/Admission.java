package io.millrace.operators.inference;

import java.io.IOException;

/** Which of the waiting requests the engine gets next, and whether it has room for it. Task thread only. */
final class Admission {
    /** Requests are admitted up to this share above max_num_seqs, so that the scheduler always has prefills to choose. */
    private static final double LOOKAHEAD = 0.5;

    private final WaitingRequests waiting;
    private final CrashGuard guard;
    private final int maxSequences;

    Admission(WaitingRequests waiting, CrashGuard guard, int maxNumSeqs) {
        this.waiting = waiting;
        this.guard = guard;
        this.maxSequences = maxSequences(maxNumSeqs);
    }

    /** Most sequences given to an engine that computes so many at a time. */
    static int maxSequences(int maxNumSeqs) {
        return maxNumSeqs + Math.max(1, (int) (maxNumSeqs * LOOKAHEAD));
    }

    /**
     * The next request, if the engine has room for it, or null. It still waits.
     *
     * @param numSequences in the engine
     */
    WaitingRequests.Waiting next(int numSequences, boolean engineIsEmpty) throws IOException {
        if (waiting.isEmpty()) {
            return null;
        }
        if (guard.postponesSuspects()) {
            while (guard.isSuspect(waiting.first().uid()) && waiting.postponeFirst()) {
                // the next one may be a suspect too
            }
        } else {
            waiting.recallPostponed();
        }
        WaitingRequests.Waiting next = waiting.first();
        boolean room = engineIsEmpty || !guard.isCautious() && numSequences + next.numSamples() <= maxSequences;
        return room ? next : null;
    }
}
