package io.millrace.connect.kafka;

import io.millrace.schemas.Header;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.util.function.SerializableFunction;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;

/**
 * Makes Kafka records of results: key request_id (none where it could not be read), the prompt's headers passed
 * through. Task thread only.
 */
final class ResultSerializer<T> implements KafkaRecordSerializationSchema<T> {
    private static final long serialVersionUID = 1L;
    /** A batch's header, and the most a record in it has beside key, value and headers (record format 2). */
    private static final int MAX_OVERHEAD_BYTES = 61 + 21;

    private static final int MAX_VARINT_BYTES = 5;

    private final String topic;
    private final SerializableFunction<T, byte[]> value;
    private final SerializableFunction<T, String> requestId;
    private final SerializableFunction<T, List<Header>> headers;

    ResultSerializer(
            String topic,
            SerializableFunction<T, byte[]> value,
            SerializableFunction<T, String> requestId,
            SerializableFunction<T, List<Header>> headers) {
        this.topic = topic;
        this.value = value;
        this.requestId = requestId;
        this.headers = headers;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(T result, KafkaSinkContext context, Long timestamp) {
        RecordHeaders recordHeaders = new RecordHeaders();
        for (Header header : headers.apply(result)) {
            recordHeaders.add(header.getKey(), bytes(header.getValue()));
        }
        return new ProducerRecord<>(topic, null, null, key(result), value.apply(result), recordHeaders);
    }

    /** What the producer and the broker count for the record at most, before compression. */
    long recordBytes(T result) {
        long numBytes = MAX_OVERHEAD_BYTES + 3L * MAX_VARINT_BYTES + value.apply(result).length;
        byte[] key = key(result);
        numBytes += key == null ? 0 : key.length;
        for (Header header : headers.apply(result)) {
            numBytes += 2L * MAX_VARINT_BYTES + header.getKey().getBytes(StandardCharsets.UTF_8).length;
            numBytes += header.getValue() == null ? 0 : header.getValue().remaining();
        }
        return numBytes;
    }

    private byte[] key(T result) {
        String id = requestId.apply(result);
        return id == null ? null : id.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
