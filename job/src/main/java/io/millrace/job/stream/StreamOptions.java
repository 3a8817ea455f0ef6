package io.millrace.job.stream;

import io.millrace.connect.RecordFormat;
import io.millrace.connect.kafka.KafkaPromptsOptions.StartFrom;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.InvalidConfigException;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.Sampling;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * A stream to run.
 *
 * @param bootstrapServers brokers, as Kafka's bootstrap.servers
 * @param promptsTopic topic of prompts
 * @param completionsTopic topic of completions
 * @param deadLettersTopic topic of requests that failed
 * @param group consumer group; also part of the sinks' transactional ids
 * @param from where a start without a checkpoint begins
 * @param until where reading ends; empty for never
 * @param delivery when results show
 * @param transactionTimeout how long the brokers keep what a job that has gone away wrote and did not commit
 * @param format how prompts, completions and dead letters are written
 * @param kafkaProperties further client properties, of security for example
 * @param engine the engine
 * @param tier where prefix KV is kept below the engine's block pool
 * @param samplingDefaults settings below a request's own
 * @param seed mixed into the seeds of requests that bring none
 * @param cluster where and how the job runs
 * @param allowFingerprintChange go on from a checkpoint of another machine's arithmetic
 */
public record StreamOptions(
        String bootstrapServers,
        String promptsTopic,
        String completionsTopic,
        String deadLettersTopic,
        String group,
        StartFrom from,
        Optional<StopAt> until,
        Delivery delivery,
        Duration transactionTimeout,
        RecordFormat format,
        Map<String, String> kafkaProperties,
        EngineConfig engine,
        TierOptions tier,
        Sampling samplingDefaults,
        long seed,
        ClusterOptions cluster,
        boolean allowFingerprintChange) {

    public StreamOptions {
        Objects.requireNonNull(from);
        Objects.requireNonNull(until);
        Objects.requireNonNull(delivery);
        Objects.requireNonNull(transactionTimeout);
        Objects.requireNonNull(format);
        Objects.requireNonNull(engine);
        Objects.requireNonNull(tier);
        Objects.requireNonNull(samplingDefaults);
        Objects.requireNonNull(cluster);
        kafkaProperties = Map.copyOf(kafkaProperties);
        if (!bootstrapServers.matches("[^:,\\s]+:\\d+(,[^:,\\s]+:\\d+)*")) {
            throw new InvalidConfigException(
                    "--bootstrap-servers", bootstrapServers, "is not HOST:PORT[,HOST:PORT...]", "try localhost:9092");
        }
        if (group.isBlank()) {
            throw new InvalidConfigException("--group", group, "is empty", "leave it out for millrace");
        }
        List<String> topics = List.of(promptsTopic, completionsTopic, deadLettersTopic);
        if (topics.stream().distinct().count() != topics.size()) {
            throw new InvalidConfigException(
                    "--prompts, --completions, --dead-letters",
                    topics,
                    "must be three different topics",
                    "a job that reads what it writes never ends");
        }
    }
}
