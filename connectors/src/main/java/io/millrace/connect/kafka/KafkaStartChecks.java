package io.millrace.connect.kafka;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks a cluster, before a job starts, for everything that would otherwise fail it later and over again. Every method
 * throws {@link KafkaSetupException}, which says what is wrong and what to do. Blocking; one thread, not a task's.
 */
public final class KafkaStartChecks implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(KafkaStartChecks.class);
    private static final String MAX_TRANSACTION_TIMEOUT = "transaction.max.timeout.ms";
    /** Kafka's defaults, assumed where the broker does not tell. */
    private static final long DEFAULT_MAX_REQUEST_SIZE_BYTES = 1 << 20;

    private static final long DEFAULT_BUFFER_MEMORY_BYTES = 32 << 20;
    private static final long DEFAULT_MAX_MESSAGE_BYTES = 1048588;

    private static final long POLL_MS = 20;

    private final String bootstrapServers;
    private final Duration timeout;
    private final Admin admin;
    private final int brokerId;

    /**
     * Connects.
     *
     * @param bootstrapServers host:port, comma separated
     * @param properties further client settings: SASL, TLS
     * @param timeout how long each question may take
     */
    public KafkaStartChecks(String bootstrapServers, Map<String, String> properties, Duration timeout) {
        this.bootstrapServers = bootstrapServers;
        this.timeout = timeout;
        Properties all = KafkaSettings.toProperties(KafkaSettings.checked(properties));
        KafkaSettings.sayUnknown(properties);
        all.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrapServers);
        all.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, Long.toString(timeout.toMillis()));
        all.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, Long.toString(Math.min(timeout.toMillis(), 10_000)));
        try {
            admin = Admin.create(all);
        } catch (KafkaException e) {
            throw unreachable(e.getCause() == null ? e : e.getCause());
        }
        try {
            brokerId = ask(admin.describeCluster().nodes()).iterator().next().id();
        } catch (ExecutionException | KafkaSetupException e) {
            admin.close(Duration.ZERO);
            throw unreachable(e.getCause() == null ? e : e.getCause());
        }
    }

    private KafkaSetupException unreachable(Throwable cause) {
        // The time limit of this class's own has no message, and says nothing that the sentence does not.
        String detail = cause.getMessage() == null ? "" : " (" + cause.getMessage() + ")";
        return new KafkaSetupException(
                "bootstrap-servers",
                bootstrapServers,
                "no broker answered there within " + timeout.toMillis() + " ms" + detail,
                "check that the broker runs, the address, and the security settings in the Kafka properties",
                cause);
    }

    /** Checks that a topic exists, and that this client may see it. */
    public void requireTopic(String topic) {
        if (!exists(topic)) {
            throw new KafkaSetupException(
                    "topic",
                    "\"" + topic + "\"",
                    "there is no such topic on " + bootstrapServers,
                    "check the name, or create it (kafka-topics --create)");
        }
    }

    /** Checks that a topic exists, and creates it otherwise, with the broker's default replication. */
    public void requireOrCreateTopic(String topic, int numPartitions) {
        if (exists(topic)) {
            return;
        }
        try {
            NewTopic created = new NewTopic(topic, Optional.of(numPartitions), Optional.empty());
            ask(admin.createTopics(List.of(created)).all());
            LOG.info("Created the topic {} with {} partitions.", topic, numPartitions);
        } catch (ExecutionException e) {
            if (!(e.getCause() instanceof TopicExistsException)) {
                throw refused("topic", topic, "create it yourself (kafka-topics --create)", e);
            }
        }
        awaitVisible(topic);
    }

    /** A topic is created before every broker has heard of it. */
    private void awaitVisible(String topic) {
        long deadlineNanos = System.nanoTime() + timeout.toNanos();
        while (!exists(topic)) {
            if (System.nanoTime() > deadlineNanos) {
                throw new KafkaSetupException(
                        "topic",
                        "\"" + topic + "\"",
                        "it was created, and is not visible after " + timeout.toMillis() + " ms",
                        "check the health of the brokers, and start again");
            }
            try {
                Thread.sleep(POLL_MS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new KafkaException("interrupted while waiting for the topic " + topic, e);
            }
        }
    }

    private boolean exists(String topic) {
        try {
            ask(admin.describeTopics(List.of(topic)).allTopicNames());
            return true;
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                return false;
            }
            throw refused("topic", topic, "check its name and this user's rights on it", e);
        }
    }

    /**
     * Checks that transactions live long enough, and not longer than the broker lets them.
     *
     * @param transactionTimeout how long the broker shall keep a transaction of a job that has gone away
     * @param checkpointInterval how long a transaction is open in a job that runs
     * @param outage how long the job may be down without losing what it had written
     */
    public void requireTransactionTimeout(Duration transactionTimeout, Duration checkpointInterval, Duration outage) {
        Duration needed = checkpointInterval.plus(outage);
        if (transactionTimeout.compareTo(needed) < 0) {
            throw new KafkaSetupException(
                    ProducerConfig.TRANSACTION_TIMEOUT_CONFIG,
                    transactionTimeout.toMillis(),
                    "it must be at least " + needed.toMillis() + ", the checkpoint interval ("
                            + checkpointInterval.toMillis() + ") plus the outage to survive (" + outage.toMillis()
                            + ")",
                    "raise the transaction timeout, or checkpoint more often");
        }
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(brokerId));
        Optional<Long> max = number(broker, MAX_TRANSACTION_TIMEOUT);
        if (max.isPresent() && transactionTimeout.toMillis() > max.get()) {
            throw new KafkaSetupException(
                    ProducerConfig.TRANSACTION_TIMEOUT_CONFIG,
                    transactionTimeout.toMillis(),
                    "the broker's " + MAX_TRANSACTION_TIMEOUT + " is " + max.get(),
                    "raise that on the brokers, lower the transaction timeout, or deliver at-least-once");
        }
    }

    /** How large the records of a topic may be that a sink with these properties writes. */
    public OutputLimits outputLimits(String topic, Map<String, String> properties) {
        // A record must also fit the memory in which the producer collects what it sends.
        long maxRequestSizeBytes = Math.min(
                setting(properties, ProducerConfig.MAX_REQUEST_SIZE_CONFIG, DEFAULT_MAX_REQUEST_SIZE_BYTES),
                setting(properties, ProducerConfig.BUFFER_MEMORY_CONFIG, DEFAULT_BUFFER_MEMORY_BYTES));
        long maxMessageBytes = number(
                        new ConfigResource(ConfigResource.Type.TOPIC, topic), TopicConfig.MAX_MESSAGE_BYTES_CONFIG)
                .orElse(DEFAULT_MAX_MESSAGE_BYTES);
        return new OutputLimits(topic, maxRequestSizeBytes, maxMessageBytes);
    }

    private static long setting(Map<String, String> properties, String key, long defaultValue) {
        String value = properties.get(key);
        try {
            return value == null ? defaultValue : Long.parseLong(value.trim());
        } catch (NumberFormatException e) {
            throw new KafkaSetupException(
                    key, "\"" + value + "\"", "it must be a number of bytes", "correct it in the Kafka properties", e);
        }
    }

    /** Empty, and said in the log, where this user may not read the setting. */
    private Optional<Long> number(ConfigResource resource, String key) {
        Config config;
        try {
            config = ask(admin.describeConfigs(List.of(resource)).all()).get(resource);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof AuthorizationException) {
                LOG.warn(
                        "{} of {} cannot be checked: {} Kafka's default is assumed. Grant DescribeConfigs to check it.",
                        key,
                        resource,
                        e.getCause().getMessage());
                return Optional.empty();
            }
            throw refused(key, "of " + resource, "check the topic's name and this user's rights", e);
        }
        ConfigEntry entry = config.get(key);
        return entry == null || entry.value() == null ? Optional.empty() : Optional.of(Long.parseLong(entry.value()));
    }

    private <T> T ask(KafkaFuture<T> answer) throws ExecutionException {
        try {
            return answer.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw unreachable(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new KafkaException("interrupted while asking " + bootstrapServers, e);
        }
    }

    private static KafkaSetupException refused(String key, String value, String remedy, ExecutionException e) {
        return new KafkaSetupException(
                key, value, "the broker refused: " + e.getCause().getMessage(), remedy, e.getCause());
    }

    @Override
    public void close() {
        admin.close(Duration.ZERO);
    }
}
