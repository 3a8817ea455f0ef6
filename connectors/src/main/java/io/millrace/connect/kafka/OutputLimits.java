package io.millrace.connect.kafka;

/**
 * How large the records of a topic may be.
 *
 * @param topic the topic
 * @param maxRequestSizeBytes the producer's max.request.size, or its buffer.memory where that is less
 * @param maxMessageBytes the topic's max.message.bytes
 */
public record OutputLimits(String topic, long maxRequestSizeBytes, long maxMessageBytes) {
    /** The largest record, as {@link KafkaCompletions#recordBytes} counts it, that producer and topic both take. */
    public long largestRecordBytes() {
        return Math.min(maxRequestSizeBytes, maxMessageBytes);
    }
}
