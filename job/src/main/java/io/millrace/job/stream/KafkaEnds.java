package io.millrace.job.stream;

import io.millrace.connect.HeldOpenSource;
import io.millrace.connect.kafka.KafkaCompletions;
import io.millrace.connect.kafka.KafkaDeadLetters;
import io.millrace.connect.kafka.KafkaPrompts;
import io.millrace.connect.kafka.KafkaPromptsOptions;
import io.millrace.connect.kafka.KafkaSinkOptions;
import io.millrace.connect.kafka.KafkaStartChecks;
import io.millrace.job.cluster.EmbeddedCluster;
import io.millrace.job.topology.InferenceJob;
import io.millrace.operators.PipelineOptions;
import io.millrace.schemas.PromptEnvelope;
import java.time.Duration;
import java.util.List;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.runtime.jobgraph.JobGraph;

/** The stream's two ends on Kafka: asks the brokers what would fail the job later, and builds its graph between the topics. */
final class KafkaEnds {

    private static final Duration ANSWER_TIMEOUT = Duration.ofSeconds(20);
    /** What a job that went away may take to come back before the brokers drop what it had not committed. */
    private static final Duration OUTAGE = Duration.ofMinutes(5);

    private final StreamOptions options;

    KafkaEnds(StreamOptions options) {
        this.options = options;
    }

    /**
     * Asks the brokers for topics and limits, and builds the job.
     *
     * @throws io.millrace.connect.kafka.KafkaSetupException if something there would fail it
     */
    JobGraph checkedGraph() {
        KafkaSinkOptions completions = sinkOptions(options.completionsTopic());
        KafkaSinkOptions deadLetters = sinkOptions(options.deadLettersTopic());
        long maxCompletionBytes;
        long maxDeadLetterBytes;
        try (KafkaStartChecks checks =
                new KafkaStartChecks(options.bootstrapServers(), options.kafkaProperties(), ANSWER_TIMEOUT)) {
            checks.requireTopic(options.promptsTopic());
            checks.requireTopic(options.completionsTopic());
            checks.requireTopic(options.deadLettersTopic());
            if (options.delivery() == Delivery.EXACTLY_ONCE) {
                checks.requireTransactionTimeout(
                        options.transactionTimeout(), options.cluster().checkpointInterval(), OUTAGE);
            }
            maxCompletionBytes = checks.outputLimits(options.completionsTopic(), options.kafkaProperties())
                    .largestRecordBytes();
            maxDeadLetterBytes = checks.outputLimits(options.deadLettersTopic(), options.kafkaProperties())
                    .largestRecordBytes();
        }
        PipelineOptions pipeline = new PipelineOptions(
                options.engine(),
                options.tier(),
                options.samplingDefaults(),
                options.seed(),
                1,
                options.cluster().parallelism(),
                options.cluster().stateDirectory().resolve("guard").toUri().toString(),
                options.allowFingerprintChange(),
                maxCompletionBytes,
                KafkaCompletions.recordBytes(completions),
                maxDeadLetterBytes,
                KafkaDeadLetters.recordBytes(deadLetters));
        return InferenceJob.graph(
                EmbeddedCluster.newEnvironment(options.cluster()),
                "millrace " + options.promptsTopic() + " to " + options.completionsTopic(),
                source(),
                false,
                pipeline,
                KafkaCompletions.sink(completions),
                KafkaDeadLetters.sink(deadLetters));
    }

    private Source<PromptEnvelope, ?, ?> source() {
        var source = KafkaPrompts.source(new KafkaPromptsOptions(
                options.bootstrapServers(),
                options.promptsTopic(),
                options.group(),
                options.from(),
                options.until().isPresent(),
                options.format(),
                options.kafkaProperties(),
                List.of()));
        return options.until().isPresent() ? new HeldOpenSource<>(source) : source;
    }

    private KafkaSinkOptions sinkOptions(String topic) {
        return new KafkaSinkOptions(
                options.bootstrapServers(),
                topic,
                options.format(),
                options.delivery().guarantee(),
                "millrace-" + options.group(),
                options.transactionTimeout(),
                options.kafkaProperties());
    }
}
