package io.millrace.connect.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class KafkaSettingsTest {

    @ParameterizedTest
    @CsvSource({
        "securty.protocol, security.protocol",
        "sasl.mechansim, sasl.mechanism",
        "max.request.sise, max.request.size",
        "ssl.truststore.pasword, ssl.truststore.password",
        "security_protocol, security.protocol"
    })
    void aMisspeltSettingNamesTheRightOne(String given, String meant) {
        KafkaSetupException refused =
                assertThrows(KafkaSetupException.class, () -> KafkaSettings.checked(Map.of(given, "x")));
        assertTrue(refused.getMessage().contains("did you mean " + meant + "?"), refused.getMessage());
    }

    @Test
    void knownSettingsAndThoseOfPlugInsPass() {
        Map<String, String> properties = Map.of(
                "security.protocol", "SASL_SSL",
                "sasl.jaas.config", "x",
                "ssl.truststore.location", "t",
                "max.request.size", "1",
                "isolation.level", "read_committed",
                "com.example.interceptor.mode", "x");
        assertEquals(properties, KafkaSettings.checked(properties));
    }

    @Test
    void whatMillraceSetsIsRefused() {
        assertThrows(KafkaSetupException.class, () -> KafkaSettings.checked(Map.of("group.id", "x")));
    }
}
