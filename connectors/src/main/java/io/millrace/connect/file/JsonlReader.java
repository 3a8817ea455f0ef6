package io.millrace.connect.file;

import io.millrace.connect.json.ErrorCodes;
import io.millrace.connect.json.PromptJson;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;

/** Reads one line a call. Task thread only: a local file answers faster than a hand-over between threads would. */
final class JsonlReader implements SourceReader<PromptEnvelope, JsonlSplit> {
    /** Blank lines passed over in one call, so that a file of them does not hold up checkpoints. */
    private static final int MAX_BLANK_LINES_A_CALL = 1000;

    private final SourceReaderContext context;
    private final int maxLineBytes;
    private final CompletableFuture<Void> splitsKnown = new CompletableFuture<>();
    /** Null while there is nothing to read. */
    private JsonlLines lines;

    private JsonlSplit split;

    JsonlReader(SourceReaderContext context, int maxLineBytes) {
        this.context = context;
        this.maxLineBytes = maxLineBytes;
    }

    @Override
    public void start() {
        if (split == null) {
            context.sendSplitRequest();
        }
    }

    @Override
    public InputStatus pollNext(ReaderOutput<PromptEnvelope> output) throws IOException {
        if (split == null) {
            return splitsKnown.isDone() ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
        }
        if (lines == null) {
            lines = new JsonlLines(split, maxLineBytes);
        }
        for (int i = 0; i < MAX_BLANK_LINES_A_CALL; i++) {
            if (!lines.next()) {
                lines.close();
                lines = null;
                split = null;
                splitsKnown.complete(null);
                return InputStatus.END_OF_INPUT;
            }
            if (!lines.isBlank()) {
                output.collect(envelope());
                return InputStatus.MORE_AVAILABLE;
            }
        }
        return InputStatus.MORE_AVAILABLE;
    }

    private PromptEnvelope envelope() {
        Source source = new Source(split.file(), lines.numLinesRead(), null, null, null);
        if (!lines.isTooLong()) {
            return PromptJson.parse(lines.bytes(), source, List.of());
        }
        ErrorInfo error = new ErrorInfo(
                ErrorCodes.RECORD_TOO_LARGE,
                String.format(
                        "the line has %d bytes, the limit is %d; only its first %d bytes are kept",
                        lines.lineBytes(), maxLineBytes, lines.bytes().length),
                "Shorten the prompt or what passes through with it.");
        return PromptJson.failed(lines.bytes(), source, List.of(), error);
    }

    @Override
    public List<JsonlSplit> snapshotState(long checkpointId) {
        if (split == null) {
            return List.of();
        }
        return List.of(
                lines == null
                        ? split
                        : new JsonlSplit(split.file(), split.fileBytes(), lines.offsetBytes(), lines.numLinesRead()));
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return split == null ? splitsKnown : CompletableFuture.completedFuture(null);
    }

    @Override
    public void addSplits(List<JsonlSplit> splits) {
        if (splits.size() != 1 || split != null) {
            throw new IllegalStateException("one file is one split, got " + splits + " beside " + split);
        }
        split = splits.get(0);
        splitsKnown.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {
        splitsKnown.complete(null);
    }

    @Override
    public void close() throws IOException {
        if (lines != null) {
            lines.close();
        }
    }
}
