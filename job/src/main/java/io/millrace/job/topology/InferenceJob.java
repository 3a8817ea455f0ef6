package io.millrace.job.topology;

import io.millrace.operators.InferencePipeline;
import io.millrace.operators.PipelineOptions;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.PromptEnvelope;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;

/**
 * Assembles the job: source, pipeline, sinks. Uids are part of what checkpoints are found by: never change one.
 */
public final class InferenceJob {

    public static final String SOURCE_UID = "prompts";
    public static final String DUPLICATE_FILTER_UID = "duplicate-filter";
    public static final String COMPLETIONS_UID = "completions";
    public static final String DEAD_LETTERS_UID = "dead-letters";

    private static final TypeInformation<PromptEnvelope> ENVELOPES = new AvroTypeInfo<>(PromptEnvelope.class);

    private InferenceJob() {}

    /**
     * The job graph.
     *
     * @param environment carries the cluster's settings
     * @param name shown in the web UI
     * @param source one reader reads it: parsing is far cheaper than inference, and files keep their order
     * @param refuseDuplicates whether a request id may occur once only
     */
    public static JobGraph graph(
            StreamExecutionEnvironment environment,
            String name,
            Source<PromptEnvelope, ?, ?> source,
            boolean refuseDuplicates,
            PipelineOptions options,
            Sink<Completion> completions,
            Sink<DeadLetter> deadLetters) {
        DataStream<PromptEnvelope> prompts = environment
                // Generates no watermarks and passes on the only one there is: the source's, at its end.
                .fromSource(source, WatermarkStrategy.noWatermarks(), "prompts", ENVELOPES)
                .uid(SOURCE_UID)
                .setParallelism(1);
        if (refuseDuplicates) {
            prompts = prompts.keyBy(new DuplicateFilter.ByRequestId(), Types.STRING)
                    .process(new DuplicateFilter(), ENVELOPES)
                    .uid(DUPLICATE_FILTER_UID)
                    .name("duplicate filter");
        }
        InferencePipeline.Outputs outputs = InferencePipeline.attach(prompts, options);
        outputs.completions().sinkTo(completions).uid(COMPLETIONS_UID).name("completions");
        outputs.deadLetters().sinkTo(deadLetters).uid(DEAD_LETTERS_UID).name("dead letters");
        StreamGraph graph = environment.getStreamGraph();
        graph.setJobName(name);
        return graph.getJobGraph();
    }
}
