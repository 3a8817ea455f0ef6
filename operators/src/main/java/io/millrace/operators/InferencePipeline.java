package io.millrace.operators;

import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.PromptEnvelope;
import org.apache.flink.streaming.api.datastream.DataStream;

/** The engine's part of a job: prompts in, completions and dead letters out; where they come from and go is the job's. */
public final class InferencePipeline {
    /** Uid of the inference operator: what {@code JobCountsRequest} is addressed to. */
    public static final String INFERENCE_UID = "inference";

    /** Slot-sharing group of the inference operator; every other operator belongs in "default". */
    public static final String INFERENCE_SLOT_SHARING_GROUP = "inference";

    private InferencePipeline() {}

    public static Outputs attach(DataStream<PromptEnvelope> prompts, PipelineOptions options) {
        throw new UnsupportedOperationException();
    }

    /** The two outputs. */
    public record Outputs(DataStream<Completion> completions, DataStream<DeadLetter> deadLetters) {}
}
