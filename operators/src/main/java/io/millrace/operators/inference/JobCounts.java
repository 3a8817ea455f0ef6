package io.millrace.operators.inference;

import java.util.Map;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;

/**
 * Where the whole job stands, summed over the inference subtasks. Counts of requests and tokens go on across restarts;
 * numRestoredTokens and the engine's figures are of the current start. Always numRecordsIn = numCompleted + numFailed +
 * numInFlight.
 *
 * @param allSubtasksReported false while some subtask has not reported since its (re)start: the figures are then partial
 * @param inputEnded every subtask has seen the end of every source
 * @param numRecordsIn records that reached the inference operator, bad ones included
 * @param numCompleted requests all of whose samples were emitted
 * @param numFailed requests that went to the dead letters
 * @param failedByCode the same by error code
 * @param numInFlight requests neither completed nor failed
 * @param numCompletions completions emitted (one per sample)
 * @param numPromptTokens prompt tokens of completed requests
 * @param numCachedTokens of these found in the prefix cache
 * @param numCompletionTokens output tokens of emitted completions
 * @param numRestoredTokens output tokens taken over from the checkpoint this start began with
 * @param numRestoredRequests requests in flight taken over from it
 * @param numRunningSequences sequences that hold KV blocks
 * @param numWaitingSequences sequences submitted to an engine and not running
 * @param kvCacheUsage share of KV blocks in use, mean over subtasks
 * @param peakKvCacheUsage highest share of any subtask since its start
 * @param numPreemptions preemptions
 * @param numGeneratedTokens tokens drawn, unemitted ones included
 * @param generatedAtNanos when that many had been drawn, by the clock of the engine that reported last ({@code System.nanoTime}
 *     of its process): reports arrive later than that
 * @param numPrefillTokens prompt tokens computed, recomputed ones included
 * @param numSteps engine steps
 * @param stepNanos time in steps
 * @param gemmNanos of it in matrix products
 * @param attentionNanos of it in attention
 * @param samplingNanos of it in sampling
 * @param numericFingerprint of the engines
 * @param mailLatencyP99Nanos how long 99 of 100 of the newest mails to a task thread waited, in the slowest subtask: what
 *     records and barriers wait for
 * @param tier what the prefix tier did
 */
public record JobCounts(
        boolean allSubtasksReported,
        boolean inputEnded,
        long numRecordsIn,
        long numCompleted,
        long numFailed,
        Map<String, Long> failedByCode,
        long numInFlight,
        long numCompletions,
        long numPromptTokens,
        long numCachedTokens,
        long numCompletionTokens,
        long numRestoredTokens,
        long numRestoredRequests,
        int numRunningSequences,
        int numWaitingSequences,
        double kvCacheUsage,
        double peakKvCacheUsage,
        long numPreemptions,
        long numGeneratedTokens,
        long generatedAtNanos,
        long numPrefillTokens,
        long numSteps,
        long stepNanos,
        long gemmNanos,
        long attentionNanos,
        long samplingNanos,
        String numericFingerprint,
        long mailLatencyP99Nanos,
        TierCounts tier)
        implements CoordinationResponse {

    /** Everything that the sources held has been answered: the job may be stopped. */
    public boolean isFinished() {
        return allSubtasksReported && inputEnded && numInFlight == 0;
    }
}
