package io.millrace.operators.inference;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.operators.coordination.CoordinationRequest;
import org.apache.flink.runtime.operators.coordination.CoordinationRequestHandler;
import org.apache.flink.runtime.operators.coordination.CoordinationResponse;
import org.apache.flink.runtime.operators.coordination.OperatorCoordinator;
import org.apache.flink.runtime.operators.coordination.OperatorEvent;

/**
 * Adds up what the inference subtasks report, for the client that shows progress and decides when a bounded job is done. A
 * subtask's figures vanish when it is reset, so that counts from before a failure never say that the job is finished.
 * Called by the job master's main thread and, for events, the same.
 */
final class JobCountsCoordinator implements OperatorCoordinator, CoordinationRequestHandler {
    private final int parallelism;
    private final Map<Integer, SubtaskCounts> bySubtask = new HashMap<>();

    private JobCountsCoordinator(int parallelism) {
        this.parallelism = parallelism;
    }

    @Override
    public synchronized CompletableFuture<CoordinationResponse> handleCoordinationRequest(CoordinationRequest request) {
        if (!(request instanceof JobCountsRequest)) {
            return CompletableFuture.failedFuture(
                    new IllegalArgumentException("not a request for job counts: " + request));
        }
        return CompletableFuture.completedFuture(sum());
    }

    @Override
    public synchronized void handleEventFromOperator(int subtask, int attemptNumber, OperatorEvent event) {
        bySubtask.put(subtask, (SubtaskCounts) event);
    }

    @Override
    public synchronized void subtaskReset(int subtask, long checkpointId) {
        bySubtask.remove(subtask);
    }

    @Override
    public synchronized void executionAttemptFailed(int subtask, int attemptNumber, Throwable reason) {
        bySubtask.remove(subtask);
    }

    @Override
    public synchronized void resetToCheckpoint(long checkpointId, byte[] checkpointData) {
        bySubtask.clear();
    }

    @Override
    public void executionAttemptReady(int subtask, int attemptNumber, SubtaskGateway gateway) {}

    @Override
    public void checkpointCoordinator(long checkpointId, CompletableFuture<byte[]> result) {
        result.complete(new byte[0]);
    }

    @Override
    public void notifyCheckpointComplete(long checkpointId) {}

    @Override
    public void start() {}

    @Override
    public void close() {}

    private JobCounts sum() {
        boolean all = bySubtask.size() == parallelism;
        Map<String, Long> failedByCode = new TreeMap<>();
        bySubtask.values().forEach(c -> c.failedByCode().forEach((code, n) -> failedByCode.merge(code, n, Long::sum)));
        return new JobCounts(
                all,
                all && bySubtask.values().stream().allMatch(SubtaskCounts::inputEnded),
                sum(SubtaskCounts::numRecordsIn),
                sum(SubtaskCounts::numCompleted),
                failedByCode.values().stream().mapToLong(Long::longValue).sum(),
                failedByCode,
                sum(SubtaskCounts::numInFlight),
                sum(SubtaskCounts::numCompletions),
                sum(SubtaskCounts::numPromptTokens),
                sum(SubtaskCounts::numCachedTokens),
                sum(SubtaskCounts::numCompletionTokens),
                sum(SubtaskCounts::numRestoredTokens),
                sum(SubtaskCounts::numRestoredRequests),
                (int) sum(SubtaskCounts::numRunningSequences),
                (int) sum(SubtaskCounts::numWaitingSequences),
                bySubtask.values().stream()
                        .mapToDouble(SubtaskCounts::kvCacheUsage)
                        .average()
                        .orElse(0),
                bySubtask.values().stream()
                        .mapToDouble(SubtaskCounts::peakKvCacheUsage)
                        .max()
                        .orElse(0),
                sum(SubtaskCounts::numPreemptions),
                sum(SubtaskCounts::numGeneratedTokens),
                bySubtask.values().stream()
                        .mapToLong(SubtaskCounts::generatedAtNanos)
                        .max()
                        .orElse(0),
                sum(SubtaskCounts::numPrefillTokens),
                sum(SubtaskCounts::numSteps),
                sum(SubtaskCounts::stepNanos),
                sum(SubtaskCounts::gemmNanos),
                sum(SubtaskCounts::attentionNanos),
                sum(SubtaskCounts::samplingNanos),
                bySubtask.values().stream()
                        .map(SubtaskCounts::numericFingerprint)
                        .findFirst()
                        .orElse(""),
                bySubtask.values().stream()
                        .mapToLong(SubtaskCounts::mailLatencyP99Nanos)
                        .max()
                        .orElse(0),
                bySubtask.values().stream().map(SubtaskCounts::tier).reduce(TierCounts.NONE, TierCounts::plus));
    }

    private long sum(java.util.function.ToLongFunction<SubtaskCounts> figure) {
        return bySubtask.values().stream().mapToLong(figure).sum();
    }

    /** Creates the coordinator in the job master. */
    static final class Provider implements OperatorCoordinator.Provider {
        private static final long serialVersionUID = 1L;

        private final OperatorID operatorId;

        Provider(OperatorID operatorId) {
            this.operatorId = operatorId;
        }

        @Override
        public OperatorID getOperatorId() {
            return operatorId;
        }

        @Override
        public OperatorCoordinator create(Context context) {
            return new JobCountsCoordinator(context.currentParallelism());
        }
    }
}
