package io.millrace.connect.kafka;

import io.millrace.connect.RecordFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.avro.Schema;

/**
 * Where prompts are read from.
 *
 * @param bootstrapServers host:port, comma separated
 * @param topic the prompts' topic
 * @param group the consumer group under which offsets are committed with every checkpoint
 * @param from where a job without a checkpoint begins
 * @param untilLatest stop at the offsets that are the latest when the job starts
 * @param format the records' form
 * @param properties further client settings: SASL, TLS, tuning
 * @param writerSchemas Avro schemas of writers beside this version's own
 */
public record KafkaPromptsOptions(
        String bootstrapServers,
        String topic,
        String group,
        StartFrom from,
        boolean untilLatest,
        RecordFormat format,
        Map<String, String> properties,
        List<Schema> writerSchemas) {

    /** Where a job without a checkpoint begins. */
    public enum StartFrom {
        /** The oldest record the topic has. */
        EARLIEST,
        /** Only what comes after the start. */
        LATEST,
        /** The group's committed offsets; the oldest record where it has none. */
        COMMITTED
    }

    public KafkaPromptsOptions {
        KafkaSettings.requireText("bootstrap-servers", bootstrapServers);
        KafkaSettings.requireText("prompts topic", topic);
        KafkaSettings.requireText("group", group);
        Objects.requireNonNull(from, "from");
        Objects.requireNonNull(format, "format");
        properties = KafkaSettings.checked(properties);
        writerSchemas = List.copyOf(writerSchemas);
    }
}
