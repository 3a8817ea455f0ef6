package io.millrace.connect.kafka;

import io.millrace.connect.RecordFormat;
import io.millrace.schemas.Completion;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.util.function.SerializableFunction;

/** Completions to a Kafka topic: key request_id, the prompt's headers passed through. */
public final class KafkaCompletions {
    private KafkaCompletions() {}

    /** The sink. */
    public static KafkaSink<Completion> sink(KafkaSinkOptions options) {
        return KafkaSinks.sink(options, "completions", serializer(options));
    }

    /**
     * The most bytes a completion takes as a record, to be compared with {@link OutputLimits#largestRecordBytes()}
     * before it is sent: a record that the producer or the broker refuses fails the job, and again after each restart.
     */
    public static SerializableFunction<Completion, Long> recordBytes(KafkaSinkOptions options) {
        return serializer(options)::recordBytes;
    }

    static ResultSerializer<Completion> serializer(KafkaSinkOptions options) {
        RecordFormat format = options.format();
        return new ResultSerializer<>(
                options.topic(), format::toBytes, Completion::getRequestId, Completion::getHeaders);
    }
}
