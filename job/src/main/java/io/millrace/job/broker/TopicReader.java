package io.millrace.job.broker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads a whole topic as a client that wants committed records only. */
public final class TopicReader {

    private static final Duration POLL = Duration.ofMillis(200);

    private TopicReader() {}

    /**
     * All committed records from the beginning to what is the end at the call, partition by partition.
     *
     * @throws BrokerException if the end is not reached in time
     */
    public static List<ConsumerRecord<byte[], byte[]>> readCommitted(
            String bootstrapServers, String topic, Duration timeout) {
        Map<String, Object> properties =
                Map.of("bootstrap.servers", bootstrapServers, "isolation.level", "read_committed");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(info -> new TopicPartition(topic, info.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            long deadline = System.nanoTime() + timeout.toNanos();
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                if (System.nanoTime() > deadline) {
                    throw new BrokerException(
                            "topic " + topic + " on " + bootstrapServers + " was not read to its end within "
                                    + timeout.toSeconds() + " s",
                            null);
                }
                consumer.poll(POLL).forEach(records::add);
            }
            return records;
        }
    }
}
