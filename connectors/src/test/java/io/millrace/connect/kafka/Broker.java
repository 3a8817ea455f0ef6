package io.millrace.connect.kafka;

import java.io.OutputStream;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.Feature;

/** A real broker in the test's JVM: KRaft, one node that is broker and controller. */
final class Broker implements AutoCloseable {
    private final KafkaRaftServer server;
    private final String bootstrapServers;

    Broker(Path directory) throws Exception {
        int port = freePort();
        int controllerPort = freePort();
        bootstrapServers = "localhost:" + port;
        Properties properties = new Properties();
        properties.putAll(Map.ofEntries(
                Map.entry("process.roles", "broker,controller"),
                Map.entry("node.id", "1"),
                Map.entry("controller.quorum.voters", "1@localhost:" + controllerPort),
                Map.entry("listeners", "PLAINTEXT://localhost:" + port + ",CONTROLLER://localhost:" + controllerPort),
                Map.entry("controller.listener.names", "CONTROLLER"),
                Map.entry("log.dirs", directory.toString()),
                Map.entry("offsets.topic.replication.factor", "1"),
                Map.entry("offsets.topic.num.partitions", "1"),
                Map.entry("transaction.state.log.replication.factor", "1"),
                Map.entry("transaction.state.log.min.isr", "1"),
                Map.entry("transaction.state.log.num.partitions", "1"),
                Map.entry("group.initial.rebalance.delay.ms", "0"),
                Map.entry("auto.create.topics.enable", "false")));
        new Formatter()
                .setPrintStream(new PrintStream(OutputStream.nullOutputStream()))
                .setSupportedFeatures(Feature.PRODUCTION_FEATURES)
                .setNodeId(1)
                .setClusterId(Uuid.randomUuid().toString())
                .setDirectories(List.of(directory.toString()))
                .setMetadataLogDirectory(directory.toString())
                .setControllerListenerName("CONTROLLER")
                .setUnstableFeatureVersionsEnabled(false)
                .run();
        server = new KafkaRaftServer(KafkaConfig.fromProps(properties), Time.SYSTEM);
        server.startup();
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    String bootstrapServers() {
        return bootstrapServers;
    }

    void createTopic(String name, int numPartitions, Map<String, String> settings) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers))) {
            admin.createTopics(List.of(new NewTopic(name, numPartitions, (short) 1).configs(settings)))
                    .all()
                    .get();
        }
    }

    /** Adds one partition with one record. */
    void addPartition(String topic, int numPartitions, byte[] value) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers))) {
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(numPartitions + 1)))
                    .all()
                    .get();
        }
        send(List.of(new ProducerRecord<>(topic, numPartitions, null, value)));
    }

    void send(List<ProducerRecord<byte[], byte[]>> records) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrapServers, "max.request.size", "20000000"),
                new ByteArraySerializer(),
                new ByteArraySerializer())) {
            for (ProducerRecord<byte[], byte[]> record : records) {
                producer.send(record).get();
            }
        }
    }

    /** Everything that a read_committed consumer sees. */
    List<ConsumerRecord<byte[], byte[]>> readCommitted(String topic) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrapServers, "isolation.level", "read_committed"),
                new ByteArrayDeserializer(),
                new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                    .map(p -> new TopicPartition(topic, p.partition()))
                    .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
                consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            }
        }
        return records;
    }

    /** Waits until a group has committed that many records. */
    void awaitCommitted(String group, long numRecords) throws Exception {
        long deadline = System.nanoTime() + 30_000_000_000L;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers))) {
            long numCommitted = 0;
            while (numCommitted < numRecords) {
                if (System.nanoTime() > deadline) {
                    throw new AssertionError(group + " has committed " + numCommitted + " of " + numRecords);
                }
                Thread.sleep(20);
                numCommitted =
                        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values().stream()
                                .mapToLong(OffsetAndMetadata::offset)
                                .sum();
            }
        }
    }

    @Override
    public void close() {
        server.shutdown();
        server.awaitShutdown();
    }
}
