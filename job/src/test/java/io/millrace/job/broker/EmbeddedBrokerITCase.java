package io.millrace.job.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EmbeddedBrokerITCase {

    @TempDir
    Path directory;

    @Test
    void showsOnlyCommittedTransactionsAndKeepsTopicsAcrossARestart() throws Exception {
        try (EmbeddedBroker broker = EmbeddedBroker.start(directory, 0)) {
            broker.createTopics(List.of("things"), 1);
            broker.createTopics(List.of("things"), 1);
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                    Map.of("bootstrap.servers", broker.bootstrapServers(), "transactional.id", "t"),
                    new StringSerializer(),
                    new StringSerializer())) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("things", "k", "aborted"));
                producer.flush();
                producer.abortTransaction();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("things", "k", "committed"));
                producer.commitTransaction();
            }
            assertEquals(List.of("committed"), readAll(broker, "things"));
        }
        try (EmbeddedBroker again = EmbeddedBroker.start(directory, 0)) {
            assertEquals(List.of("committed"), readAll(again, "things"));
        }
    }

    @Test
    void aTakenPortAndAnUnusableDirectoryAreErrorsThatSayWhatToDo() throws Exception {
        try (EmbeddedBroker broker = EmbeddedBroker.start(directory.resolve("a"), 0)) {
            BrokerException taken = assertThrows(
                    BrokerException.class, () -> EmbeddedBroker.start(directory.resolve("b"), broker.port()));
            assertTrue(taken.getMessage().contains("port " + broker.port() + " is taken"), taken.getMessage());
            assertTrue(taken.getMessage().contains("--port"), taken.getMessage());
        }
        Path file = Files.writeString(directory.resolve("file"), "not a directory");
        BrokerException unusable = assertThrows(BrokerException.class, () -> EmbeddedBroker.start(file, 0));
        assertTrue(unusable.getMessage().contains(file.toString()), unusable.getMessage());
    }

    private static List<String> readAll(EmbeddedBroker broker, String topic) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", broker.bootstrapServers(), "isolation.level", "read_committed"),
                new StringDeserializer(),
                new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            List<String> values = new ArrayList<>();
            long deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (consumer.position(partition) < end && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(200)).forEach(read -> values.add(read.value()));
            }
            return values;
        }
    }
}
