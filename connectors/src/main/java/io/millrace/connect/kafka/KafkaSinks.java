package io.millrace.connect.kafka;

import java.util.Properties;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.kafka.clients.producer.ProducerConfig;

/** What the sinks of completions and dead letters have in common. Stateless. */
final class KafkaSinks {
    private KafkaSinks() {}

    static <T> KafkaSink<T> sink(KafkaSinkOptions options, String name, ResultSerializer<T> serializer) {
        Properties properties = KafkaSettings.toProperties(options.properties());
        properties.put(
                ProducerConfig.TRANSACTION_TIMEOUT_CONFIG,
                Long.toString(options.transactionTimeout().toMillis()));
        return KafkaSink.<T>builder()
                .setKafkaProducerConfig(properties)
                .setBootstrapServers(options.bootstrapServers())
                .setDeliveryGuarantee(options.delivery())
                // Two sinks of one job with one prefix would abort each other's transactions.
                .setTransactionalIdPrefix(options.transactionalIdPrefix() + "-" + name)
                .setRecordSerializer(serializer)
                .build();
    }
}
