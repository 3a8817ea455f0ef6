package io.millrace.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.model.InvalidModelException;
import io.millrace.model.ModelDirectory;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ModelShapeTest {
    private static final Path DEMO_MODEL = Path.of("../models/millrace-tiny");

    @ParameterizedTest
    @CsvSource({
        "smollm2-135m, 134515008, 23040",
        "qwen2.5-0.5b, 494032768, 12288",
        "llama-3.2-1b, 1235814400, 32768",
        "llama-3-8b, 8030261248, 131072",
        "llama-3-70b, 70553706496, 327680",
        "llama-2-7b, 6738415616, 524288",
    })
    void namedShapesHaveTheirPublishedParameterCounts(String name, long numParameters, double kvBytesPerToken) {
        ModelShape shape = NamedShapes.find(name).orElseThrow();
        assertEquals(numParameters, shape.numParameters());
        assertEquals(kvBytesPerToken, ModelCost.of(shape, Precision.BFLOAT16).kvBytesPerToken());
    }

    @Test
    void configAndOpenedModelAgree() {
        ModelShape fromConfig = ConfigShape.read(DEMO_MODEL);
        ModelShape fromSpec =
                ModelShape.of("millrace-tiny", ModelDirectory.open(DEMO_MODEL).spec());
        assertEquals(fromSpec, fromConfig);
        assertEquals(2_558_400, fromConfig.numParameters());
        assertEquals(fromConfig, ConfigShape.read(DEMO_MODEL.resolve("config.json")));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            llama   | false | 29856
            llama   | true  | 30048
            mistral | false | 29856
            qwen2   | false | 29984
            qwen3   | false | 29888
            gemma2  | false | 25888
            """)
    void familiesDifferInNormsBiasesAndTying(String type, boolean attentionBias, long numParameters, @TempDir Path dir)
            throws IOException {
        Files.writeString(dir.resolve("config.json"), config(type, attentionBias));
        assertEquals(numParameters, ConfigShape.read(dir).numParameters());
    }

    @Test
    void equalMatricesAreOneGemm() {
        assertEquals(
                "[GemmShape[layers=q, o, numInputs=4096, numOutputs=4096],"
                        + " GemmShape[layers=k, v, numInputs=4096, numOutputs=1024],"
                        + " GemmShape[layers=gate, up, numInputs=4096, numOutputs=14336],"
                        + " GemmShape[layers=down, numInputs=14336, numOutputs=4096],"
                        + " GemmShape[layers=LM head, numInputs=4096, numOutputs=128256]]",
                Llama3OnH100.SHAPE.gemms().toString());
    }

    @Test
    void badConfigsAreNamed(@TempDir Path dir) throws IOException {
        Path file = dir.resolve("config.json");
        String good = config("llama", false);
        assertRefused(dir, "cannot be read");
        for (String[] edit : new String[][] {
            {"\"hidden_size\": 32,", "", "lacks 'hidden_size'"},
            {"\"hidden_size\": 32,", "\"hidden_size\": -1,", "'hidden_size' = -1 must be a whole number"},
            {"\"num_key_value_heads\": 2,", "\"num_key_value_heads\": 3,", "does not divide num_attention_heads = 4"},
            {"\"llama\"", "\"mamba\"", "'model_type' = \"mamba\" cannot be planned; supported: gemma, gemma2, llama"},
            {"\"vocab_size\"", "\"num_local_experts\": 8, \"vocab_size\"", "makes a mixture of experts"},
            {"}", "", "is no valid JSON"},
        }) {
            assertTrue(good.contains(edit[0]), edit[0]);
            Files.writeString(file, good.replace(edit[0], edit[1]));
            assertRefused(dir, edit[2]);
        }
    }

    @Test
    void slidingWindowIsRemarkedOn(@TempDir Path dir) throws IOException {
        Files.writeString(
                dir.resolve("config.json"), config("mistral", false).replace("{", "{\"sliding_window\": 4096,"));
        assertTrue(ConfigShape.remark(dir).orElseThrow().contains("window of 4096 tokens"));
        assertTrue(ConfigShape.remark(DEMO_MODEL).isEmpty());
    }

    private static void assertRefused(Path dir, String part) {
        InvalidModelException e = assertThrows(InvalidModelException.class, () -> ConfigShape.read(dir));
        assertTrue(
                e.getMessage().contains(part) && e.getMessage().contains("config.json"), () -> part + " not in: " + e);
    }

    private static String config(String type, boolean attentionBias) {
        return "{\"model_type\": \"" + type + "\", \"hidden_size\": 32, \"num_hidden_layers\": 2,"
                + " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 80,"
                + " \"vocab_size\": 128, \"attention_bias\": " + attentionBias + "}";
    }
}
