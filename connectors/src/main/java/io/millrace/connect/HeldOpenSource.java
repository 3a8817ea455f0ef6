package io.millrace.connect;

import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.watermark.WatermarkDeclaration;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ExternallyInducedSourceReader;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.SupportsSplitReassignmentOnRecovery;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * A bounded source that stays open past its end. Flink takes no checkpoint while operators drain in {@code endInput},
 * and draining an inference job takes minutes; so the source never ends by itself. Each of its readers, those without
 * splits too, sends {@link Watermark#MAX_WATERMARK} once it has read everything, again after every restore, and then
 * waits: the job is to be stopped from outside (stop-with-savepoint, or cancel) once its results are out.
 *
 * <p>The watermark passes through {@code WatermarkStrategy.noWatermarks()}: that strategy only generates none, and
 * hands on what a reader emits itself. It is the only watermark of the job, so its arrival at an operator, which takes the
 * least of all channels, means that every reader upstream has ended.
 *
 * @param <T> the records' type
 * @param <SplitT> the wrapped source's splits
 * @param <EnumChkT> the wrapped source's enumerator state
 */
public final class HeldOpenSource<T, SplitT extends SourceSplit, EnumChkT>
        implements Source<T, SplitT, EnumChkT>, ResultTypeQueryable<T> {
    private static final long serialVersionUID = 1L;

    private final Source<T, SplitT, EnumChkT> bounded;

    /**
     * @param bounded the source to hold open; it must also tell its records' type
     * @throws IllegalArgumentException if the source is unbounded, or has an ability that cannot be passed on
     */
    public HeldOpenSource(Source<T, SplitT, EnumChkT> bounded) {
        Objects.requireNonNull(bounded, "bounded");
        if (bounded.getBoundedness() != Boundedness.BOUNDED) {
            throw new IllegalArgumentException(
                    bounded + " is unbounded: it never ends and needs no holding open; give it a stop position");
        }
        if (!(bounded instanceof ResultTypeQueryable)) {
            throw new IllegalArgumentException(bounded + " does not tell its records' type (ResultTypeQueryable)");
        }
        if (bounded instanceof SupportsSplitReassignmentOnRecovery) {
            throw new IllegalArgumentException(bounded + " reassigns splits on recovery, which cannot be passed on");
        }
        this.bounded = bounded;
    }

    @Override
    public Boundedness getBoundedness() {
        return Boundedness.CONTINUOUS_UNBOUNDED;
    }

    @Override
    public SourceReader<T, SplitT> createReader(SourceReaderContext context) throws Exception {
        SourceReader<T, SplitT> reader = bounded.createReader(context);
        if (reader instanceof ExternallyInducedSourceReader) {
            reader.close();
            throw new IllegalStateException(bounded + " triggers checkpoints itself, which cannot be passed on");
        }
        return new Reader<>(reader);
    }

    @Override
    public SplitEnumerator<SplitT, EnumChkT> createEnumerator(SplitEnumeratorContext<SplitT> context) throws Exception {
        return bounded.createEnumerator(context);
    }

    @Override
    public SplitEnumerator<SplitT, EnumChkT> restoreEnumerator(
            SplitEnumeratorContext<SplitT> context, EnumChkT checkpoint) throws Exception {
        return bounded.restoreEnumerator(context, checkpoint);
    }

    @Override
    public SimpleVersionedSerializer<SplitT> getSplitSerializer() {
        return bounded.getSplitSerializer();
    }

    @Override
    public SimpleVersionedSerializer<EnumChkT> getEnumeratorCheckpointSerializer() {
        return bounded.getEnumeratorCheckpointSerializer();
    }

    @Override
    public Set<? extends WatermarkDeclaration> declareWatermarks() {
        return bounded.declareWatermarks();
    }

    @Override
    @SuppressWarnings("unchecked")
    public TypeInformation<T> getProducedType() {
        return ((ResultTypeQueryable<T>) bounded).getProducedType();
    }

    /** Task thread only, like the reader it wraps. */
    @SuppressWarnings("try") // close() throws what the wrapped reader's does
    private static final class Reader<T, SplitT extends SourceSplit> implements SourceReader<T, SplitT> {
        private final SourceReader<T, SplitT> bounded;
        /** Not part of the state: a restored reader ends again, and must say so again. */
        private boolean ended;

        /** Completed when the ended reader is to be polled once more. */
        private CompletableFuture<Void> tidyUp = new CompletableFuture<>();

        Reader(SourceReader<T, SplitT> bounded) {
            this.bounded = bounded;
        }

        @Override
        public InputStatus pollNext(ReaderOutput<T> output) throws Exception {
            if (ended) {
                if (tidyUp.isDone()) {
                    tidyUp = new CompletableFuture<>();
                    bounded.pollNext(output);
                }
                return InputStatus.NOTHING_AVAILABLE;
            }
            InputStatus status = bounded.pollNext(output);
            if (status != InputStatus.END_OF_INPUT) {
                return status;
            }
            ended = true;
            output.emitWatermark(Watermark.MAX_WATERMARK);
            return InputStatus.NOTHING_AVAILABLE;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return ended ? tidyUp : bounded.isAvailable();
        }

        @Override
        public void start() {
            bounded.start();
        }

        @Override
        public List<SplitT> snapshotState(long checkpointId) {
            return bounded.snapshotState(checkpointId);
        }

        @Override
        public void addSplits(List<SplitT> splits) {
            bounded.addSplits(splits);
        }

        @Override
        public void notifyNoMoreSplits() {
            bounded.notifyNoMoreSplits();
        }

        @Override
        public void handleSourceEvents(SourceEvent event) {
            bounded.handleSourceEvents(event);
        }

        @Override
        public void notifyCheckpointComplete(long checkpointId) throws Exception {
            bounded.notifyCheckpointComplete(checkpointId);
            // A Kafka reader that has ended starts a fetcher to commit the checkpoint's offsets. Only its pollNext ends
            // that fetcher again, and only then its consumer sends the commit: without a poll there would be one more
            // consumer with every checkpoint, and no offsets.
            tidyUp.complete(null);
        }

        @Override
        public void notifyCheckpointAborted(long checkpointId) throws Exception {
            bounded.notifyCheckpointAborted(checkpointId);
        }

        @Override
        public void pauseOrResumeSplits(Collection<String> toPause, Collection<String> toResume) {
            bounded.pauseOrResumeSplits(toPause, toResume);
        }

        @Override
        public void close() throws Exception {
            bounded.close();
        }
    }
}
