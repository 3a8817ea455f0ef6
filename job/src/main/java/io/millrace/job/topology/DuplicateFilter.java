package io.millrace.job.topology;

import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Source;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Turns the second and every later prompt with a request id into an error, keyed by that id. The first occurrence's line is
 * keyed state: on disk, part of every checkpoint. Which one is first is fixed because one reader reads the file in order and an
 * exchange keeps the order of every sender. Bad records pass as they are and claim no id.
 */
final class DuplicateFilter extends KeyedProcessFunction<String, PromptEnvelope, PromptEnvelope> {

    private static final long serialVersionUID = 1L;

    /** Stable error code. */
    static final String DUPLICATE_REQUEST_ID = "duplicate_request_id";

    private transient ValueState<Long> firstLine;

    /** The id to compare by: the request's own, else the record's place, which nothing else has. */
    static final class ByRequestId implements KeySelector<PromptEnvelope, String> {
        private static final long serialVersionUID = 1L;

        @Override
        public String getKey(PromptEnvelope envelope) {
            Source source = envelope.getSource();
            // The first character keeps places apart from ids that look like one.
            return envelope.getRequestId() == null || envelope.getError() != null
                    ? "@" + source.getFile() + ":" + source.getLine()
                    : "=" + envelope.getRequestId();
        }
    }

    @Override
    public void open(OpenContext context) {
        firstLine = getRuntimeContext().getState(new ValueStateDescriptor<>("first-line", Types.LONG));
    }

    @Override
    public void processElement(PromptEnvelope envelope, Context context, Collector<PromptEnvelope> out)
            throws Exception {
        if (envelope.getError() == null && envelope.getRequestId() != null) {
            Long first = firstLine.value();
            if (first != null) {
                out.collect(refused(envelope, first));
                return;
            }
            firstLine.update(envelope.getSource().getLine());
        }
        out.collect(envelope);
    }

    private static PromptEnvelope refused(PromptEnvelope envelope, long firstLine) {
        String id = envelope.getRequestId();
        return PromptEnvelope.newBuilder(envelope)
                .setPrompt(null)
                .setError(new ErrorInfo(
                        DUPLICATE_REQUEST_ID,
                        "request_id '" + id + "' on line "
                                + envelope.getSource().getLine() + " was already given on line " + firstLine,
                        "give every request an id of its own; for several samples of one prompt set sampling.n"))
                .build();
    }
}
