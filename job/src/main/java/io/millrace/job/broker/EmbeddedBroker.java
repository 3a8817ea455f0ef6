package io.millrace.job.broker;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * One KRaft node, broker and controller in one, listening on localhost. Its log directory outlives it: a broker opened again on
 * the same directory serves the same topics. All methods may be called from any thread; {@link #close} is idempotent and waits
 * until the node is down.
 */
public final class EmbeddedBroker implements AutoCloseable {

    private static final int NODE_ID = 1;
    private static final int NUM_BIND_ATTEMPTS = 5;

    private final KafkaRaftServer server;
    private final Path dataDirectory;
    private final int port;
    private boolean closed;

    private EmbeddedBroker(KafkaRaftServer server, Path dataDirectory, int port) {
        this.server = server;
        this.dataDirectory = dataDirectory;
        this.port = port;
    }

    /**
     * Formats the directory where that is still to be done and starts the node; returns when it serves.
     *
     * @param dataDirectory holds the topics; created where missing
     * @param port to listen on; 0 takes a free one
     * @throws BrokerException if the directory cannot be used or the port is taken
     */
    public static EmbeddedBroker start(Path dataDirectory, int port) {
        Path directory = dataDirectory.toAbsolutePath().normalize();
        format(directory);
        for (int attempt = 1; ; attempt++) {
            int brokerPort = port != 0 ? port : freePort();
            KafkaRaftServer server = new KafkaRaftServer(
                    new KafkaConfig(properties(directory, brokerPort, freePort()), false), Time.SYSTEM);
            try {
                server.startup();
                return new EmbeddedBroker(server, directory, brokerPort);
            } catch (RuntimeException e) {
                shutDown(server, e);
                boolean taken = isCausedBy(e, BindException.class);
                if (port == 0 && taken && attempt < NUM_BIND_ATTEMPTS) {
                    continue; // another process took the free port between looking and listening
                }
                throw new BrokerException(
                        taken
                                ? "port " + brokerPort + " is taken; choose another with --port, or 0 for a free one"
                                : "the broker did not start on " + directory + ": " + e.getMessage()
                                        + "; is another broker using this directory?",
                        e);
            }
        }
    }

    /** {@code host:port} for bootstrap.servers. */
    public String bootstrapServers() {
        return "localhost:" + port;
    }

    public int port() {
        return port;
    }

    public Path dataDirectory() {
        return dataDirectory;
    }

    /**
     * Creates topics; those that exist already stay as they are.
     *
     * @param names the topics
     * @param numPartitions partitions of each
     */
    public void createTopics(Collection<String> names, int numPartitions) throws InterruptedException {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers()))) {
            List<NewTopic> topics = names.stream()
                    .map(name -> new NewTopic(name, numPartitions, (short) 1))
                    .toList();
            for (Map.Entry<String, org.apache.kafka.common.KafkaFuture<Void>> created :
                    admin.createTopics(topics).values().entrySet()) {
                try {
                    created.getValue().get();
                } catch (ExecutionException e) {
                    if (!(e.getCause() instanceof TopicExistsException)) {
                        throw new BrokerException(
                                "topic " + created.getKey() + " was not created: "
                                        + e.getCause().getMessage(),
                                e.getCause());
                    }
                }
            }
        }
    }

    @Override
    public synchronized void close() {
        if (!closed) {
            closed = true;
            server.shutdown();
            server.awaitShutdown();
        }
    }

    private static void format(Path directory) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        try (PrintStream out = new PrintStream(said, true, StandardCharsets.UTF_8)) {
            Files.createDirectories(directory);
            if (Files.exists(directory.resolve("meta.properties"))) {
                return;
            }
            new Formatter()
                    .setPrintStream(out)
                    .setSupportedFeatures(Feature.PRODUCTION_FEATURES)
                    .setClusterId(Uuid.randomUuid().toString())
                    .setNodeId(NODE_ID)
                    .setControllerListenerName("CONTROLLER")
                    .setMetadataLogDirectory(directory.toString())
                    .addDirectory(directory.toString())
                    .setReleaseVersion(MetadataVersion.latestProduction())
                    .setIgnoreFormatted(true)
                    .run();
        } catch (Exception e) {
            throw new BrokerException(
                    "the broker's data directory " + directory + " could not be prepared: " + e.getMessage()
                            + " " + said.toString(StandardCharsets.UTF_8).strip()
                            + "; give a writable directory",
                    e);
        }
    }

    private static Properties properties(Path directory, int brokerPort, int controllerPort) {
        Properties properties = new Properties();
        properties.put("process.roles", "broker,controller");
        properties.put("node.id", Integer.toString(NODE_ID));
        properties.put("log.dirs", directory.toString());
        properties.put(
                "listeners", "PLAINTEXT://localhost:" + brokerPort + ",CONTROLLER://localhost:" + controllerPort);
        properties.put("advertised.listeners", "PLAINTEXT://localhost:" + brokerPort);
        properties.put("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT");
        properties.put("inter.broker.listener.name", "PLAINTEXT");
        properties.put("controller.listener.names", "CONTROLLER");
        properties.put("controller.quorum.voters", NODE_ID + "@localhost:" + controllerPort);
        // A single node: everything that is replicated by default has one replica, and few partitions start quickly.
        properties.put("offsets.topic.replication.factor", "1");
        properties.put("offsets.topic.num.partitions", "4");
        properties.put("transaction.state.log.replication.factor", "1");
        properties.put("transaction.state.log.min.isr", "1");
        properties.put("transaction.state.log.num.partitions", "4");
        properties.put("share.coordinator.state.topic.replication.factor", "1");
        properties.put("share.coordinator.state.topic.min.isr", "1");
        properties.put("default.replication.factor", "1");
        properties.put("num.partitions", "1");
        properties.put("group.initial.rebalance.delay.ms", "0");
        properties.put("transaction.max.timeout.ms", Long.toString(60L * 60 * 1000));
        properties.put("log.cleaner.dedupe.buffer.size", Long.toString(4L << 20));
        properties.put("background.threads", "2");
        properties.put("num.io.threads", "4");
        properties.put("num.network.threads", "2");
        return properties;
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new BrokerException("no free port on localhost: " + e.getMessage(), e);
        }
    }

    private static void shutDown(KafkaRaftServer server, RuntimeException failure) {
        try {
            server.shutdown();
            server.awaitShutdown();
        } catch (RuntimeException e) {
            failure.addSuppressed(e);
        }
    }

    private static boolean isCausedBy(Throwable failure, Class<? extends Throwable> kind) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (kind.isInstance(cause)) {
                return true;
            }
        }
        return false;
    }
}
