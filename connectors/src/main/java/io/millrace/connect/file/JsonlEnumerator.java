package io.millrace.connect.file;

import java.util.List;
import java.util.Optional;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;

/** Gives the one split to the first reader that asks, and tells every other that there is none. */
final class JsonlEnumerator implements SplitEnumerator<JsonlSplit, JsonlSource.Unassigned> {
    private final SplitEnumeratorContext<JsonlSplit> context;
    private Optional<JsonlSplit> unassigned;

    JsonlEnumerator(SplitEnumeratorContext<JsonlSplit> context, Optional<JsonlSplit> unassigned) {
        this.context = context;
        this.unassigned = unassigned;
    }

    @Override
    public void start() {}

    @Override
    public void handleSplitRequest(int subtask, String host) {
        unassigned.ifPresent(split -> context.assignSplit(split, subtask));
        unassigned = Optional.empty();
        context.signalNoMoreSplits(subtask);
    }

    @Override
    public void addSplitsBack(List<JsonlSplit> splits, int subtask) {
        for (JsonlSplit split : splits) {
            unassigned = Optional.of(split);
        }
    }

    /** Readers ask by themselves once they know that they were restored without a split. */
    @Override
    public void addReader(int subtask) {}

    @Override
    public JsonlSource.Unassigned snapshotState(long checkpointId) {
        return new JsonlSource.Unassigned(unassigned);
    }

    @Override
    public void close() {}
}
