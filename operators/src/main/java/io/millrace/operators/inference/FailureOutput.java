package io.millrace.operators.inference;

import io.millrace.operators.InferencePipeline;
import io.millrace.operators.PipelineOptions;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.RequestCounts;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.flink.streaming.api.operators.Output;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** Emits and counts requests that failed: one dead letter each, that its sink takes. Task thread only. */
final class FailureOutput {
    private final PipelineOptions options;
    private final Output<StreamRecord<Completion>> output;
    private final RequestCounts counts;
    private final EngineMetrics metrics;

    FailureOutput(
            PipelineOptions options,
            Output<StreamRecord<Completion>> output,
            RequestCounts counts,
            EngineMetrics metrics) {
        this.options = options;
        this.output = output;
        this.counts = counts;
        this.metrics = metrics;
    }

    void fail(PreparedRequest request, List<Integer> emittedIndices, ErrorInfo error) {
        DeadLetter letter = new DeadLetter(
                request.getRequestId(),
                request.getSource(),
                request.getOriginal(),
                request.getHeaders(),
                error,
                emittedIndices);
        output.collect(InferencePipeline.DEAD_LETTERS, new StreamRecord<>(fitting(letter)));
        counts.getFailedByCode().merge(error.getCode(), 1L, Long::sum);
        metrics.requestFailed(error.getCode());
    }

    void fail(LedgerEntry entry, ErrorInfo error) {
        fail(entry.request(), entry.emittedIndices(), error);
    }

    /** Fails a request for a completion of so many bytes. */
    void failTooLarge(LedgerEntry entry, Completion completion, long numBytes) {
        fail(
                entry,
                new ErrorInfo(
                        "output_too_large",
                        "the completion of sample " + completion.getIndex() + " takes " + numBytes
                                + " bytes and the output takes records of at most " + options.maxCompletionBytes(),
                        "ask for fewer tokens or log probabilities, or raise max.message.bytes of the topic and "
                                + "max.request.size of the producer"));
    }

    /** Cuts the original of a dead letter that its sink would refuse; the source coordinates still lead to it. */
    private DeadLetter fitting(DeadLetter letter) {
        long excess = options.deadLetterBytes().apply(letter) - options.maxDeadLetterBytes();
        if (excess <= 0) {
            return letter;
        }
        ByteBuffer original = letter.getOriginal().duplicate();
        int numBytes = original.remaining();
        letter.setError(new ErrorInfo(
                letter.getError().getCode(),
                letter.getError().getMessage() + " (the original of " + numBytes
                        + " bytes is cut: the output takes records of at most " + options.maxDeadLetterBytes() + ")",
                letter.getError().getRemedy()));
        int keep = numBytes;
        while (keep > 0 && options.deadLetterBytes().apply(letter) > options.maxDeadLetterBytes()) {
            keep /= 2;
            original.limit(original.position() + keep);
            letter.setOriginal(original.slice());
        }
        return letter;
    }
}
