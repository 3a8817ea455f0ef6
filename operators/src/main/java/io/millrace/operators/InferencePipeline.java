package io.millrace.operators;

import io.millrace.operators.inference.InferenceOperatorFactory;
import io.millrace.operators.prepare.PreparePrompts;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.PreparedRequest;
import io.millrace.schemas.PromptEnvelope;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.OutputTag;

/**
 * The engine's part of a job: prompts in, completions and dead letters out; where they come from and go to is the job's.
 * prepare → keyBy(routing key) → inference.
 */
public final class InferencePipeline {
    /** Uid of the inference operator: what a {@code JobCountsRequest} is addressed to. */
    public static final String INFERENCE_UID = "inference";

    /** Uid of the operator that tokenises and validates. */
    public static final String PREPARE_UID = "prepare";

    /** Slot-sharing group of the inference operator; every other operator belongs in "default". */
    public static final String INFERENCE_SLOT_SHARING_GROUP = "inference";

    /** Side output of the inference operator. */
    public static final OutputTag<DeadLetter> DEAD_LETTERS =
            new OutputTag<>("dead-letters", new AvroTypeInfo<>(DeadLetter.class));

    private static final long MAX_ADMISSION_WAIT_MILLIS = 1_000;
    private static final int ADMISSION_WAITS_PER_CHECKPOINT = 10;

    private InferencePipeline() {}

    /** Adds the pipeline's operators to the prompts' job. Its checkpoint interval must be set before. */
    public static Outputs attach(DataStream<PromptEnvelope> prompts, PipelineOptions options) {
        StreamExecutionEnvironment environment = prompts.getExecutionEnvironment();
        int maxParallelism = environment.getMaxParallelism() > 0
                ? environment.getMaxParallelism()
                : KeyGroupRangeAssignment.DEFAULT_LOWER_BOUND_MAX_PARALLELISM;
        SingleOutputStreamOperator<PreparedRequest> prepared = prompts.map(
                        new PreparePrompts(options, maxParallelism), new AvroTypeInfo<>(PreparedRequest.class))
                .uid(PREPARE_UID)
                .name("prepare")
                .setParallelism(options.prepareParallelism());
        SingleOutputStreamOperator<Completion> completions = prepared.keyBy(PreparedRequest::getRoutingKey, Types.LONG)
                .transform(
                        "inference",
                        new AvroTypeInfo<>(Completion.class),
                        new InferenceOperatorFactory(options, maxAdmissionWaitMillis(environment)))
                .uid(INFERENCE_UID)
                .name("inference")
                .setParallelism(options.inferenceParallelism())
                .setMaxParallelism(maxParallelism)
                .slotSharingGroup(INFERENCE_SLOT_SHARING_GROUP);
        return new Outputs(completions, completions.getSideOutput(DEAD_LETTERS));
    }

    private static long maxAdmissionWaitMillis(StreamExecutionEnvironment environment) {
        long intervalMillis = environment.getCheckpointConfig().getCheckpointInterval();
        return intervalMillis <= 0
                ? MAX_ADMISSION_WAIT_MILLIS
                : Math.min(MAX_ADMISSION_WAIT_MILLIS, intervalMillis / ADMISSION_WAITS_PER_CHECKPOINT);
    }

    /** The two outputs. */
    public record Outputs(DataStream<Completion> completions, DataStream<DeadLetter> deadLetters) {}
}
