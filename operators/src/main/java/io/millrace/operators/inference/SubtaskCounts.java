package io.millrace.operators.inference;

import io.millrace.backend.StepTimes;
import io.millrace.engine.EngineStats;
import io.millrace.schemas.RequestCounts;
import java.util.Map;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;

/** One subtask's report to the coordinator: see {@link JobCounts} for the meaning of each figure. */
record SubtaskCounts(
        boolean inputEnded,
        long numRecordsIn,
        long numCompleted,
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
        implements OperatorEvent {

    static SubtaskCounts of(
            RequestCounts counts,
            boolean inputEnded,
            long numInFlight,
            long numRestoredTokens,
            long numRestoredRequests,
            EngineStats engine,
            String numericFingerprint,
            long mailLatencyP99Nanos) {
        StepTimes times = engine.times();
        double peak = engine.numBlocks() == 0 ? 0 : (double) engine.peakUsedBlocks() / engine.numBlocks();
        return new SubtaskCounts(
                inputEnded,
                counts.getRecordsIn(),
                counts.getCompleted(),
                Map.copyOf(counts.getFailedByCode()),
                numInFlight,
                counts.getCompletions(),
                counts.getPromptTokens(),
                counts.getCachedTokens(),
                counts.getCompletionTokens(),
                numRestoredTokens,
                numRestoredRequests,
                engine.numRunningSequences(),
                engine.numWaitingSequences(),
                engine.kvCacheUsage(),
                peak,
                engine.numPreemptions(),
                engine.numGeneratedTokens(),
                engine.nanos(),
                engine.numPromptTokens(),
                engine.numSteps(),
                times.totalNanos(),
                times.gemmNanos(),
                times.attentionNanos(),
                times.samplingNanos(),
                numericFingerprint,
                mailLatencyP99Nanos,
                TierCounts.of(counts, engine.tier()));
    }
}
