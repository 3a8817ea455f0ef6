package io.millrace.connect.kafka;

import io.millrace.schemas.PromptEnvelope;
import java.util.Properties;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.KafkaSourceEnumState;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.split.KafkaPartitionSplit;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/** Prompts from a Kafka topic. */
public final class KafkaPrompts {
    private KafkaPrompts() {}

    /**
     * One {@link PromptEnvelope} for every record of the topic, bad ones and records without a value included. Offsets
     * are committed when a checkpoint completes. Only records of committed transactions are read, unless the properties
     * set isolation.level otherwise. The source is bounded if the options say {@code untilLatest}.
     */
    public static Source<PromptEnvelope, KafkaPartitionSplit, KafkaSourceEnumState> source(
            KafkaPromptsOptions options) {
        Properties properties = KafkaSettings.toProperties(options.properties());
        properties.putIfAbsent(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        KafkaSourceBuilder<PromptEnvelope> builder = KafkaSource.<PromptEnvelope>builder()
                .setProperties(properties)
                .setBootstrapServers(options.bootstrapServers())
                .setTopics(options.topic())
                .setGroupId(options.group())
                .setStartingOffsets(startingOffsets(options.from()))
                .setDeserializer(new PromptDeserializer(options.format(), options.writerSchemas()));
        return options.untilLatest()
                ? new BoundedKafkaSource<>(
                        builder.setBounded(OffsetsInitializer.latest()).build())
                : builder.build();
    }

    @SuppressWarnings("deprecation") // the connector's own parameter type
    private static OffsetsInitializer startingOffsets(KafkaPromptsOptions.StartFrom from) {
        return switch (from) {
            case EARLIEST -> OffsetsInitializer.earliest();
            case LATEST -> OffsetsInitializer.latest();
            case COMMITTED -> OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST);
        };
    }
}
