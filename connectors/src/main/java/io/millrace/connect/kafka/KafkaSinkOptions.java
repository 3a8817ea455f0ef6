package io.millrace.connect.kafka;

import io.millrace.connect.RecordFormat;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import org.apache.flink.connector.base.DeliveryGuarantee;

/**
 * Where results are written to.
 *
 * @param bootstrapServers host:port, comma separated
 * @param topic the results' topic
 * @param format the records' form
 * @param delivery EXACTLY_ONCE: results show to read_committed consumers with each checkpoint; AT_LEAST_ONCE: at once,
 *     and perhaps again after a failure
 * @param transactionalIdPrefix begins the names of the job's transactions: the same at every start of one job, and no
 *     other's on the cluster; each sink adds its own part
 * @param transactionTimeout how long the broker keeps a transaction of a job that has gone away
 * @param properties further client settings: SASL, TLS, max.request.size, tuning
 */
public record KafkaSinkOptions(
        String bootstrapServers,
        String topic,
        RecordFormat format,
        DeliveryGuarantee delivery,
        String transactionalIdPrefix,
        Duration transactionTimeout,
        Map<String, String> properties) {

    public KafkaSinkOptions {
        KafkaSettings.requireText("bootstrap-servers", bootstrapServers);
        KafkaSettings.requireText("results topic", topic);
        KafkaSettings.requireText("transactional id prefix", transactionalIdPrefix);
        Objects.requireNonNull(format, "format");
        Objects.requireNonNull(transactionTimeout, "transactionTimeout");
        if (delivery == DeliveryGuarantee.NONE) {
            throw new KafkaSetupException(
                    "delivery", "none", "results must not be lost", "use exactly-once or at-least-once");
        }
        if (transactionTimeout.toMillis() < 1000 || transactionTimeout.toMillis() > Integer.MAX_VALUE) {
            throw new KafkaSetupException(
                    "transaction timeout",
                    transactionTimeout,
                    "it must lie in 1 s to 24 days",
                    "use the checkpoint interval plus the longest outage to survive, for example 15 min");
        }
        properties = KafkaSettings.checked(properties);
    }
}
