package io.millrace.connect.kafka;

import java.util.Map;
import java.util.Properties;
import java.util.Set;

/** Client settings of the user (SASL, TLS, tuning) and what the options own beside them. Stateless. */
final class KafkaSettings {
    private static final Set<String> OWNED = Set.of(
            "bootstrap.servers",
            "group.id",
            "auto.offset.reset",
            "enable.auto.commit",
            "key.deserializer",
            "value.deserializer",
            "key.serializer",
            "value.serializer",
            "transactional.id",
            "transaction.timeout.ms");

    private KafkaSettings() {}

    static void requireText(String name, String value) {
        if (value == null || value.isBlank()) {
            throw new KafkaSetupException(name, "\"" + value + "\"", "it must not be empty", "give the " + name);
        }
    }

    static Map<String, String> checked(Map<String, String> properties) {
        for (Map.Entry<String, String> property : properties.entrySet()) {
            if (OWNED.contains(property.getKey())) {
                throw new KafkaSetupException(
                        property.getKey(),
                        property.getValue(),
                        "it follows from Millrace's own options and cannot be set beside them",
                        "take it out of the Kafka properties");
            }
        }
        return Map.copyOf(properties);
    }

    static Properties toProperties(Map<String, String> properties) {
        Properties all = new Properties();
        all.putAll(properties);
        return all;
    }
}
