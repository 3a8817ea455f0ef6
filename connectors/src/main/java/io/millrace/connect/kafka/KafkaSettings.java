package io.millrace.connect.kafka;

import io.millrace.connect.json.NearestName;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Client settings of the user (SASL, TLS, tuning) and what the options own beside them. Stateless. */
final class KafkaSettings {
    private static final Logger LOG = LoggerFactory.getLogger(KafkaSettings.class);
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

    /** What Kafka's clients know, in an order that does not change from run to run. */
    private static final Set<String> KNOWN = known();
    /** Names further off than this are somebody's own. */
    private static final int MAX_MISSPELT_CHARS = 3;

    private KafkaSettings() {}

    private static Set<String> known() {
        Set<String> names = new TreeSet<>(AdminClientConfig.configNames());
        names.addAll(ConsumerConfig.configNames());
        names.addAll(ProducerConfig.configNames());
        return names;
    }

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
            refuseMisspelt(property);
        }
        return Map.copyOf(properties);
    }

    /**
     * Kafka's clients pass over names they do not know, since plug-ins of users have settings too: a misspelt
     * security.protocol would connect in plain text. So a name that is nearly a known one is an error, any other passes.
     */
    private static void refuseMisspelt(Map.Entry<String, String> property) {
        String name = property.getKey();
        if (KNOWN.contains(name)) {
            return;
        }
        Optional<String> nearest = NearestName.of(name, KNOWN);
        if (nearest.isPresent() && NearestName.distance(name, nearest.get()) <= MAX_MISSPELT_CHARS) {
            throw new KafkaSetupException(
                    name,
                    property.getValue(),
                    "no Kafka client has a setting of this name",
                    "did you mean " + nearest.get() + "? Correct it in the Kafka properties");
        }
    }

    /** Says once, at the start, which settings only a plug-in of the user can know. */
    static void sayUnknown(Map<String, String> properties) {
        for (String name : new TreeSet<>(properties.keySet())) {
            if (!KNOWN.contains(name)) {
                LOG.warn(
                        "the Kafka property {} is no setting of Kafka's clients; it is passed on, for plug-ins. If it is"
                                + " for none, take it out",
                        name);
            }
        }
    }

    static Properties toProperties(Map<String, String> properties) {
        Properties all = new Properties();
        all.putAll(properties);
        return all;
    }
}
