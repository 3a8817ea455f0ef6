package io.millrace.connect.kafka;

import io.millrace.connect.RecordFormat;
import io.millrace.schemas.DeadLetter;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.util.function.SerializableFunction;

/** Dead letters to a Kafka topic: key request_id, or none where it could not be read; headers passed through. */
public final class KafkaDeadLetters {
    private KafkaDeadLetters() {}

    /** The sink. */
    public static KafkaSink<DeadLetter> sink(KafkaSinkOptions options) {
        return KafkaSinks.sink(options, "dead-letters", serializer(options));
    }

    /** The most bytes a dead letter takes as a record; see {@link KafkaCompletions#recordBytes}. */
    public static SerializableFunction<DeadLetter, Long> recordBytes(KafkaSinkOptions options) {
        return serializer(options)::recordBytes;
    }

    static ResultSerializer<DeadLetter> serializer(KafkaSinkOptions options) {
        RecordFormat format = options.format();
        return new ResultSerializer<>(
                options.topic(), format::toBytes, DeadLetter::getRequestId, DeadLetter::getHeaders);
    }
}
