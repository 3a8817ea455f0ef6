package io.millrace.connect.kafka;

import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.BiConsumer;
import org.apache.flink.api.connector.source.ReaderInfo;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SplitsAssignment;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.metrics.groups.SplitEnumeratorMetricGroup;

/**
 * The context of a restored, bounded enumerator: it discovers nothing more, which is all that a Kafka enumerator calls
 * asynchronously. Partitions that were added to the topic since the job first started lie beyond its end. Coordinator
 * thread only, like the context it wraps.
 */
record WithoutDiscovery(SplitEnumeratorContext<KafkaPartitionSplit> context)
        implements SplitEnumeratorContext<KafkaPartitionSplit> {

    @Override
    public <T> void callAsync(Callable<T> callable, BiConsumer<T, Throwable> handler) {}

    @Override
    public <T> void callAsync(
            Callable<T> callable, BiConsumer<T, Throwable> handler, long initialDelayMillis, long periodMillis) {}

    @Override
    public SplitEnumeratorMetricGroup metricGroup() {
        return context.metricGroup();
    }

    @Override
    public void sendEventToSourceReader(int subtask, SourceEvent event) {
        context.sendEventToSourceReader(subtask, event);
    }

    @Override
    public int currentParallelism() {
        return context.currentParallelism();
    }

    @Override
    public Map<Integer, ReaderInfo> registeredReaders() {
        return context.registeredReaders();
    }

    @Override
    public void assignSplits(SplitsAssignment<KafkaPartitionSplit> assignment) {
        context.assignSplits(assignment);
    }

    @Override
    public void signalNoMoreSplits(int subtask) {
        context.signalNoMoreSplits(subtask);
    }

    @Override
    public void runInCoordinatorThread(Runnable runnable) {
        context.runInCoordinatorThread(runnable);
    }
}
