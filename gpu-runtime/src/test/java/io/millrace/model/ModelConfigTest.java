package io.millrace.model;

import static io.millrace.model.SafetensorsTest.assertError;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.millrace.model.ModelSpec.Weight;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Variants of config.json, generation_config.json and weights of a tiny Llama written into a directory of its own. */
class ModelConfigTest {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final int VOCABULARY = 10;
    private static final int HIDDEN = 8;
    private static final int HEADS = 2;
    private static final int INTERMEDIATE = 6;
    private static final int LAYERS = 2;

    @TempDir
    Path directory;

    @BeforeEach
    void writeTinyModel() throws IOException {
        writeConfig(base());
        writeWeights(HEADS, List.of(), null);
    }

    @Test
    void absentKeysTakeTransformersDefaults() {
        ModelSpec spec = open().spec();
        assertEquals(HEADS, spec.numKvHeads());
        assertEquals(HIDDEN / HEADS, spec.headDim());
        assertEquals(1e-6f, spec.rmsNormEps());
        assertEquals(2048, spec.maxPositionEmbeddings());
        assertEquals(1, spec.bosTokenId());
        assertEquals(List.of(2), spec.eosTokenIds());
        assertFalse(spec.tiedEmbeddings());
        assertFalse(spec.attentionBias());
        assertFalse(spec.mlpBias());
        assertArrayEquals(new float[] {1f, 0.01f}, spec.rope().inverseFrequencies());
        assertEquals(4, spec.rope().rotaryDim());
    }

    @Test
    void nullsCountAsAbsentButSwitchTokenIdsOff() throws IOException {
        ObjectNode config = base();
        for (String key : List.of(
                "num_key_value_heads",
                "head_dim",
                "rope_scaling",
                "rope_parameters",
                "eos_token_id",
                "bos_token_id",
                "quantization_config",
                "sliding_window")) {
            config.putNull(key);
        }
        writeConfig(config);
        ModelSpec spec = open().spec();
        assertEquals(HEADS, spec.numKvHeads());
        assertEquals(List.of(), spec.eosTokenIds());
        assertEquals(-1, spec.bosTokenId());
    }

    @Test
    void endOfSequenceIdsOfBothFilesCount() throws IOException {
        writeConfig(base().put("eos_token_id", 3));
        writeGeneration("{\"eos_token_id\":[5,3]}");
        assertEquals(List.of(3, 5), open().spec().eosTokenIds());
        writeConfig(base());
        assertEquals(List.of(5, 3), open().spec().eosTokenIds(), "the family's default gives way");
        writeGeneration("{\"eos_token_id\":7}");
        assertEquals(List.of(7), open().spec().eosTokenIds());
        writeGeneration("{\"eos_token_id\":10}");
        assertError(this::open, "eos_token_id 10", "vocabulary of 10");
        writeGeneration("{\"eos_token_id\":\"x\"}");
        assertError(this::open, "generation_config.json", "'eos_token_id' = \"x\"");
    }

    @Test
    void generationDefaultsAreReadWhereGiven() throws IOException {
        assertEquals(GenerationDefaults.NONE, open().generationDefaults());
        writeGeneration("{\"do_sample\":false,\"temperature\":0.6,\"top_p\":0.9,\"top_k\":50,\"min_p\":null,"
                + "\"repetition_penalty\":1.1,\"max_new_tokens\":99}");
        assertEquals(new GenerationDefaults(0.6f, 0.9f, 50, null, 1.1f, 99), open().generationDefaults());
        writeGeneration("{\"top_p\":1.5}");
        assertError(this::open, "generation_config.json", "'top_p' = 1.5", "at most 1");
        writeGeneration("{\"temperature\":NaN}");
        assertError(this::open, "'temperature'", "finite");
    }

    @Test
    void ropeScalesAlikeUnderOlderAndNewerKeys() throws IOException {
        writeConfig(withJson(base().put("rope_theta", 400), "rope_scaling", "{\"type\":\"linear\",\"factor\":4}"));
        assertArrayEquals(new float[] {0.25f, 0.0125f}, frequencies());
        writeConfig(
                withJson(base(), "rope_parameters", "{\"rope_type\":\"linear\",\"factor\":4.0,\"rope_theta\":400}"));
        assertArrayEquals(new float[] {0.25f, 0.0125f}, frequencies());
    }

    @Test
    void llama3RopeBlendsByWavelength() throws IOException {
        // Wavelengths 2 pi and 2 pi * 100 = 628 against 100 / 4 = 25 and 100 / 1 = 100: kept and stretched.
        String llama3 = "{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
                + "\"original_max_position_embeddings\":100}";
        writeConfig(withJson(base(), "rope_scaling", llama3));
        assertArrayEquals(new float[] {1f, 0.01f / 8}, frequencies(), 1e-9f);
        // At 1000 the second falls between 250 and 1000: kept share (1000 / 628.3 - 1) / 3.
        writeConfig(withJson(base(), "rope_scaling", llama3.replace("100}", "1000}")));
        double kept = (1000 / (200 * Math.PI) - 1) / 3;
        assertEquals((1 - kept) * 0.01 / 8 + kept * 0.01, frequencies()[1], 1e-9);
        writeConfig(withJson(base(), "rope_scaling", llama3.replace("\"factor\":8,", "")));
        assertError(this::open, "lacks 'rope_scaling.factor'");
        writeConfig(
                withJson(base(), "rope_scaling", llama3.replace("\"high_freq_factor\":4", "\"high_freq_factor\":1")));
        assertError(this::open, "rope_scaling.high_freq_factor");
    }

    @Test
    void unsupportedSettingsAreNamed() throws IOException {
        assertConfigError(base().put("model_type", "mamba"), "'model_type' = \"mamba\"", "llama (LlamaForCausalLM)");
        assertConfigError(without("model_type"), "lacks 'model_type'");
        assertConfigError(
                withJson(base(), "architectures", "[\"LlamaForSequenceClassification\"]"),
                "LlamaForSequenceClassification",
                "LlamaForCausalLM");
        assertConfigError(base().put("hidden_act", "gelu"), "'hidden_act' = \"gelu\"", "silu");
        assertConfigError(base().put("sliding_window", 64), "'sliding_window' = 64");
        assertConfigError(withJson(base(), "quantization_config", "{\"bits\":4}"), "'quantization_config'");
        assertConfigError(
                withJson(base(), "rope_scaling", "{\"rope_type\":\"yarn\"}"), "rope_scaling.rope_type", "yarn");
        assertConfigError(withJson(base(), "rope_scaling", "{\"type\":\"dynamic\"}"), "rope_scaling.type", "dynamic");
        assertConfigError(
                withJson(
                        withJson(base(), "rope_scaling", "{\"type\":\"linear\",\"factor\":2}"),
                        "rope_parameters",
                        "{\"rope_type\":\"default\"}"),
                "rope_scaling",
                "rope_parameters");
        assertConfigError(
                withJson(base(), "layer_types", "[\"sliding_attention\"]"), "layer_types", "sliding_attention");
        assertConfigError(base().put("dtype", "float8"), "'dtype' = \"float8\"");
        assertConfigError(base().put("torch_dtype", "int8"), "'torch_dtype' = \"int8\"");
        assertConfigError(base().put("is_encoder_decoder", true), "'is_encoder_decoder'");
        assertConfigError(withJson(base(), "auto_map", "{\"AutoModelForCausalLM\":\"a.B\"}"), "auto_map");
        assertConfigError(base().put("partial_rotary_factor", 0.5), "partial_rotary_factor");
    }

    @Test
    void wrongSizesAreNamed() throws IOException {
        for (String key :
                List.of("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size")) {
            assertConfigError(without(key), "config.json lacks '" + key + "'");
            assertConfigError(base().put(key, 0), "'" + key + "' = 0");
            assertConfigError(base().put(key, "many"), "'" + key + "' = \"many\"");
        }
        assertConfigError(base().put("num_key_value_heads", 3), "'num_key_value_heads' = 3", "= 2");
        assertConfigError(base().put("head_dim", 3), "head_dim");
        assertConfigError(base().put("num_attention_heads", 3), "'hidden_size' = 8", "= 3");
        assertConfigError(base().put("eos_token_id", 10), "'eos_token_id' = 10");
        assertConfigError(base().put("rope_theta", -1), "'rope_theta' = -1");
        assertConfigError(base().put("tie_word_embeddings", "yes"), "'tie_word_embeddings'");
    }

    @Test
    void missingAndBrokenFilesAreNamed() throws IOException {
        assertError(() -> ModelDirectory.open(directory.resolve("absent")), "absent is no directory");
        Files.writeString(directory.resolve("config.json"), "{\"a\": ");
        assertError(this::open, "config.json is no valid JSON");
        Files.delete(directory.resolve("config.json"));
        assertError(this::open, "config.json does not exist");
        writeConfig(base());
        Files.delete(directory.resolve("model.safetensors"));
        assertError(this::open, "neither model.safetensors nor");
    }

    @Test
    void weightsAreComparedWithTheConfig() throws IOException {
        writeWeights(HEADS, List.of(), "model.layers.1.mlp.up_proj.weight");
        assertError(this::open, "lacks the tensor 'model.layers.1.mlp.up_proj.weight'");
        writeWeights(HEADS, List.of(), "lm_head.weight");
        assertError(this::open, "lacks the tensor 'lm_head.weight'");
        writeConfig(base().put("tie_word_embeddings", true));
        assertEquals(
                "model.embed_tokens.weight", open().weight(Weight.LM_HEAD, 0).name());
        writeConfig(base());
        writeWeights(1, List.of(), null);
        assertError(this::open, "'model.layers.0.self_attn.k_proj.weight'", "F32 [4, 8]", "[8, 8]");
        writeConfig(base().put("num_key_value_heads", 1));
        assertEquals(1, open().spec().numKvHeads());
    }

    @Test
    void biasesMustMatchTheConfig() throws IOException {
        List<String> biases = List.of("q_proj", "k_proj", "v_proj", "o_proj");
        writeWeights(HEADS, biases, null);
        assertError(this::open, "self_attn.q_proj.bias", "attention_bias");
        writeConfig(base().put("attention_bias", true));
        assertArrayEquals(new long[] {8}, open().weight(Weight.KEY_BIAS, 1).shape());
        assertError(() -> open().weight(Weight.GATE_BIAS, 0), "no weight GATE_BIAS");
        writeWeights(HEADS, List.of(), null);
        assertError(this::open, "lacks the tensor 'model.layers.0.self_attn.q_proj.bias'");
    }

    @Test
    void fingerprintFollowsContentAndNotSharding() throws IOException {
        String single = open().fingerprint();
        assertEquals(single, open().fingerprint());
        writeGeneration("{\"temperature\":0.5}");
        assertNotEquals(single, open().fingerprint());
        Files.delete(directory.resolve("generation_config.json"));
        shard();
        assertEquals(single, open().fingerprint());
        Path shard = directory.resolve("shard-0.safetensors");
        byte[] bytes = Files.readAllBytes(shard);
        bytes[bytes.length - 1] ^= 1;
        Files.write(shard, bytes);
        assertNotEquals(single, open().fingerprint());
    }

    private void shard() throws IOException {
        Safetensors tensors = Safetensors.open(directory);
        List<SafetensorsWriter> shards = List.of(new SafetensorsWriter(), new SafetensorsWriter());
        StringBuilder map = new StringBuilder();
        int next = 0;
        for (String name : tensors.names()) {
            Tensor tensor = tensors.tensor(name);
            byte[] bytes = new byte[(int) tensor.sizeBytes()];
            tensor.readBytes(0, bytes, 0, bytes.length);
            shards.get(next % 2).add(name, "F32", tensor.shape(), bytes);
            map.append(next == 0 ? "" : ",").append("\"" + name + "\":\"shard-" + next % 2 + ".safetensors\"");
            next++;
        }
        for (int i = 0; i < 2; i++) {
            shards.get(i).write(directory.resolve("shard-" + i + ".safetensors"));
        }
        Files.delete(directory.resolve("model.safetensors"));
        Files.writeString(directory.resolve(Safetensors.INDEX_FILE), "{\"weight_map\":{" + map + "}}");
    }

    private ModelDirectory open() {
        return ModelDirectory.open(directory);
    }

    private float[] frequencies() {
        return open().spec().rope().inverseFrequencies();
    }

    private void assertConfigError(ObjectNode config, String... parts) throws IOException {
        writeConfig(config);
        assertError(this::open, parts);
        assertError(this::open, "config.json");
    }

    private static ObjectNode base() {
        return MAPPER.createObjectNode()
                .put("model_type", "llama")
                .put("vocab_size", VOCABULARY)
                .put("hidden_size", HIDDEN)
                .put("num_attention_heads", HEADS)
                .put("num_hidden_layers", LAYERS)
                .put("intermediate_size", INTERMEDIATE);
    }

    private static ObjectNode without(String key) {
        ObjectNode config = base();
        config.remove(key);
        return config;
    }

    private static ObjectNode withJson(ObjectNode config, String key, String json) throws IOException {
        config.set(key, MAPPER.readTree(json));
        return config;
    }

    private void writeConfig(ObjectNode config) throws IOException {
        Files.writeString(directory.resolve("config.json"), config.toString());
    }

    private void writeGeneration(String json) throws IOException {
        Files.writeString(directory.resolve("generation_config.json"), json);
    }

    private void writeWeights(int numKvHeads, List<String> biases, String leftOut) throws IOException {
        SafetensorsWriter writer = new SafetensorsWriter();
        long keyValue = (long) numKvHeads * HIDDEN / HEADS;
        List<Object[]> weights = new ArrayList<>();
        weights.add(new Object[] {"model.embed_tokens.weight", new long[] {VOCABULARY, HIDDEN}});
        weights.add(new Object[] {"model.norm.weight", new long[] {HIDDEN}});
        weights.add(new Object[] {"lm_head.weight", new long[] {VOCABULARY, HIDDEN}});
        for (int layer = 0; layer < LAYERS; layer++) {
            String prefix = "model.layers." + layer + ".";
            weights.add(new Object[] {prefix + "input_layernorm.weight", new long[] {HIDDEN}});
            weights.add(new Object[] {prefix + "post_attention_layernorm.weight", new long[] {HIDDEN}});
            weights.add(new Object[] {prefix + "self_attn.q_proj.weight", new long[] {HIDDEN, HIDDEN}});
            weights.add(new Object[] {prefix + "self_attn.k_proj.weight", new long[] {keyValue, HIDDEN}});
            weights.add(new Object[] {prefix + "self_attn.v_proj.weight", new long[] {keyValue, HIDDEN}});
            weights.add(new Object[] {prefix + "self_attn.o_proj.weight", new long[] {HIDDEN, HIDDEN}});
            weights.add(new Object[] {prefix + "mlp.gate_proj.weight", new long[] {INTERMEDIATE, HIDDEN}});
            weights.add(new Object[] {prefix + "mlp.up_proj.weight", new long[] {INTERMEDIATE, HIDDEN}});
            weights.add(new Object[] {prefix + "mlp.down_proj.weight", new long[] {HIDDEN, INTERMEDIATE}});
            for (String bias : biases) {
                weights.add(new Object[] {prefix + "self_attn." + bias + ".bias", new long[] {HIDDEN}});
            }
        }
        for (Object[] weight : weights) {
            if (!weight[0].equals(leftOut)) {
                long numElements = 1;
                for (long dimension : (long[]) weight[1]) {
                    numElements *= dimension;
                }
                writer.addFloats((String) weight[0], (long[]) weight[1], new float[(int) numElements]);
            }
        }
        writer.write(directory.resolve("model.safetensors"));
        assertTrue(Files.size(directory.resolve("model.safetensors")) > 0);
    }
}
