package io.millrace.connect.kafka;

import java.io.IOException;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * A bounded {@link KafkaSource} that also ends after a restore. The connector's enumerator (5.0.0) tells its readers that
 * there are no more splits only when it discovers partitions; restored, it knows them already, says nothing, and the
 * readers wait for ever. Here every reader that registers after a restore is told, once it has its splits.
 */
final class BoundedKafkaSource<T>
        implements Source<T, KafkaPartitionSplit, KafkaSourceEnumState>, ResultTypeQueryable<T> {
    private static final long serialVersionUID = 1L;

    private final KafkaSource<T> source;

    BoundedKafkaSource(KafkaSource<T> source) {
        this.source = source;
    }

    @Override
    public Boundedness getBoundedness() {
        return source.getBoundedness();
    }

    @Override
    public SourceReader<T, KafkaPartitionSplit> createReader(SourceReaderContext context) throws Exception {
        return source.createReader(context);
    }

    @Override
    public SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> createEnumerator(
            SplitEnumeratorContext<KafkaPartitionSplit> context) {
        return source.createEnumerator(context);
    }

    @Override
    public SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> restoreEnumerator(
            SplitEnumeratorContext<KafkaPartitionSplit> context, KafkaSourceEnumState checkpoint) throws IOException {
        if (!checkpoint.initialDiscoveryFinished()) {
            // The connector discovers the partitions once more, and says when it has.
            return source.restoreEnumerator(context, checkpoint);
        }
        return new RestoredEnumerator(source.restoreEnumerator(new WithoutDiscovery(context), checkpoint), context);
    }

    @Override
    public SimpleVersionedSerializer<KafkaPartitionSplit> getSplitSerializer() {
        return source.getSplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<KafkaSourceEnumState> getEnumeratorCheckpointSerializer() {
        return source.getEnumeratorCheckpointSerializer();
    }

    @Override
    public TypeInformation<T> getProducedType() {
        return source.getProducedType();
    }

    /** Coordinator thread only, like the enumerator it wraps. */
    private record RestoredEnumerator(
            SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> restored,
            SplitEnumeratorContext<KafkaPartitionSplit> context)
            implements SplitEnumerator<KafkaPartitionSplit, KafkaSourceEnumState> {

        @Override
        public void addReader(int subtask) {
            // Assigns what no reader had at the checkpoint; what readers had, they restore themselves.
            restored.addReader(subtask);
            context.signalNoMoreSplits(subtask);
        }

        @Override
        public void start() {
            restored.start();
        }

        @Override
        public void handleSplitRequest(int subtask, String host) {
            restored.handleSplitRequest(subtask, host);
        }

        @Override
        public void addSplitsBack(List<KafkaPartitionSplit> splits, int subtask) {
            restored.addSplitsBack(splits, subtask);
        }

        @Override
        public KafkaSourceEnumState snapshotState(long checkpointId) throws Exception {
            return restored.snapshotState(checkpointId);
        }

        @Override
        public void handleSourceEvent(int subtask, SourceEvent event) {
            restored.handleSourceEvent(subtask, event);
        }

        @Override
        public void notifyCheckpointComplete(long checkpointId) throws Exception {
            restored.notifyCheckpointComplete(checkpointId);
        }

        @Override
        public void notifyCheckpointAborted(long checkpointId) throws Exception {
            restored.notifyCheckpointAborted(checkpointId);
        }

        @Override
        public void close() throws IOException {
            restored.close();
        }
    }
}
