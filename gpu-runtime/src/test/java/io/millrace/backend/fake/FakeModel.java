package io.millrace.backend.fake;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.Map;

/** Writes tiny model directories that pass all checks and mean nothing: a Llama of one layer, all weights zero. */
public final class FakeModel {
    public static final int VOCAB_SIZE = 1000;
    public static final int EOS_TOKEN_ID = 2;

    private static final ObjectMapper JSON = new ObjectMapper();

    private FakeModel() {}

    /** Writes config.json and weights, without a tokenizer. */
    public static Path write(Path directory, int maxPositionEmbeddings) {
        ObjectNode config = JSON.createObjectNode()
                .put("model_type", "llama")
                .put("hidden_act", "silu")
                .put("vocab_size", VOCAB_SIZE)
                .put("hidden_size", 8)
                .put("intermediate_size", 8)
                .put("num_hidden_layers", 1)
                .put("num_attention_heads", 1)
                .put("num_key_value_heads", 1)
                .put("head_dim", 8)
                .put("rms_norm_eps", 1e-5)
                .put("rope_theta", 10000.0)
                .put("max_position_embeddings", maxPositionEmbeddings)
                .put("tie_word_embeddings", true)
                .put("dtype", "float32")
                .put("bos_token_id", 1)
                .put("eos_token_id", EOS_TOKEN_ID);
        try {
            Files.createDirectories(directory);
            Files.writeString(directory.resolve("config.json"), config.toPrettyString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        complete(directory);
        return directory;
    }

    /** Adds zero weights to a directory that has a Llama's config.json and no weights. */
    public static void complete(Path directory) {
        Path weights = directory.resolve("model.safetensors");
        if (Files.exists(weights) || Files.exists(directory.resolve("model.safetensors.index.json"))) {
            return;
        }
        try {
            JsonNode config = JSON.readTree(directory.resolve("config.json").toFile());
            Path unfinished = Files.createTempFile(directory, "weights", ".tmp");
            writeZeros(unfinished, shapes(config));
            Files.move(unfinished, weights, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Map<String, int[]> shapes(JsonNode config) {
        int vocab = config.get("vocab_size").asInt();
        int hidden = config.get("hidden_size").asInt();
        int intermediate = config.get("intermediate_size").asInt();
        int numHeads = config.get("num_attention_heads").asInt();
        int numKvHeads = config.path("num_key_value_heads").asInt(numHeads);
        int headDim = config.path("head_dim").asInt(hidden / numHeads);
        Map<String, int[]> shapes = new LinkedHashMap<>();
        shapes.put("model.embed_tokens.weight", new int[] {vocab, hidden});
        shapes.put("model.norm.weight", new int[] {hidden});
        if (!config.path("tie_word_embeddings").asBoolean(false)) {
            shapes.put("lm_head.weight", new int[] {vocab, hidden});
        }
        for (int layer = 0; layer < config.get("num_hidden_layers").asInt(); layer++) {
            String prefix = "model.layers." + layer + ".";
            shapes.put(prefix + "input_layernorm.weight", new int[] {hidden});
            shapes.put(prefix + "post_attention_layernorm.weight", new int[] {hidden});
            shapes.put(prefix + "self_attn.q_proj.weight", new int[] {numHeads * headDim, hidden});
            shapes.put(prefix + "self_attn.k_proj.weight", new int[] {numKvHeads * headDim, hidden});
            shapes.put(prefix + "self_attn.v_proj.weight", new int[] {numKvHeads * headDim, hidden});
            shapes.put(prefix + "self_attn.o_proj.weight", new int[] {hidden, numHeads * headDim});
            shapes.put(prefix + "mlp.gate_proj.weight", new int[] {intermediate, hidden});
            shapes.put(prefix + "mlp.up_proj.weight", new int[] {intermediate, hidden});
            shapes.put(prefix + "mlp.down_proj.weight", new int[] {hidden, intermediate});
        }
        return shapes;
    }

    private static void writeZeros(Path file, Map<String, int[]> shapes) throws IOException {
        ObjectNode header = JSON.createObjectNode();
        int offset = 0;
        for (Map.Entry<String, int[]> entry : shapes.entrySet()) {
            ObjectNode tensor = header.putObject(entry.getKey()).put("dtype", "F32");
            int sizeBytes = Float.BYTES;
            for (int dimension : entry.getValue()) {
                tensor.withArray("shape").add(dimension);
                sizeBytes *= dimension;
            }
            tensor.putArray("data_offsets").add(offset).add(offset + sizeBytes);
            offset += sizeBytes;
        }
        byte[] json = header.toString().getBytes(StandardCharsets.UTF_8);
        try (OutputStream out = Files.newOutputStream(file)) {
            out.write(ByteBuffer.allocate(Long.BYTES)
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .putLong(json.length)
                    .array());
            out.write(json);
            out.write(new byte[offset]);
        }
    }
}
