package io.millrace.job.broker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.job.ChildJvm;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
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

    @Test
    void theCommandTellsHowToConnectAndEndsOnSigterm() throws Exception {
        try (ChildJvm child = ChildJvm.start(
                directory, 0, List.of("broker", "--port=0", "--data=" + directory.resolve("data"), "--topic=things"))) {
            String[] address = new String[1];
            child.awaitWhileAlive("the address", () -> {
                Matcher matcher =
                        Pattern.compile("bootstrap.servers=(localhost:\\d+)").matcher(child.printed());
                address[0] = matcher.find() ? matcher.group(1) : null;
                return address[0] != null;
            });
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", address[0]))) {
                assertTrue(admin.listTopics().names().get().contains("things"));
            }
            child.terminate();
            assertEquals(0, child.await(), child.printed());
        }
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
