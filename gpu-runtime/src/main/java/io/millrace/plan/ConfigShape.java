package io.millrace.plan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.model.InvalidModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * Reads the sizes of a model from its config.json alone, no weights needed, so that a model can be planned before it is
 * downloaded. Takes more families than the engine runs; keys that change the result but not the cost are not looked at.
 */
public final class ConfigShape {
    /** How a family's cost departs from Llama's. */
    private record Family(boolean qkvBias, boolean qkNorm, int numNormsPerLayer, boolean tiedByDefault) {}

    private static final Map<String, Family> FAMILIES = new TreeMap<>(Map.of(
            "llama", new Family(false, false, 2, false),
            "mistral", new Family(false, false, 2, false),
            "phi3", new Family(false, false, 2, false),
            "qwen2", new Family(true, false, 2, false),
            "qwen3", new Family(false, true, 2, false),
            "gemma", new Family(false, false, 2, true),
            "gemma2", new Family(false, false, 4, true)));
    /** Keys of mixtures of experts: their weights are read in part, which the roofline here does not describe. */
    private static final List<String> EXPERT_KEYS = List.of("num_experts", "num_local_experts", "n_routed_experts");

    private final Path file;
    private final JsonNode root;

    private ConfigShape(Path file, JsonNode root) {
        this.file = file;
        this.root = root;
    }

    /**
     * Reads a shape.
     *
     * @param path a model directory or a config.json
     * @throws InvalidModelException naming the file, the key, its value and the remedy
     */
    public static ModelShape read(Path path) {
        Path file = Files.isDirectory(path) ? path.resolve("config.json") : path;
        try {
            JsonNode root = new ObjectMapper().readTree(Files.readAllBytes(file));
            if (root == null || !root.isObject()) {
                throw new InvalidModelException(file + " does not hold a JSON object; give a model's config.json");
            }
            return new ConfigShape(file, root).shape();
        } catch (JsonProcessingException e) {
            throw new InvalidModelException(
                    file + " is no valid JSON: " + e.getOriginalMessage() + "; give a model's config.json", e);
        } catch (IOException e) {
            throw new InvalidModelException(
                    file + " cannot be read (" + e + "); give a model directory, its config.json or one of "
                            + String.join(", ", NamedShapes.names()),
                    e);
        }
    }

    /** What the KV cache of a windowed model is counted as, empty for a model without sliding windows. */
    public static Optional<String> remark(Path path) {
        Path file = Files.isDirectory(path) ? path.resolve("config.json") : path;
        try {
            JsonNode root = new ObjectMapper().readTree(Files.readAllBytes(file));
            boolean windowed = root.hasNonNull("sliding_window")
                    && root.path("use_sliding_window").asBoolean(true);
            return windowed
                    ? Optional.of("the sliding window of " + root.get("sliding_window")
                            + " tokens is not used: the KV of every token is counted in every layer")
                    : Optional.empty();
        } catch (IOException e) {
            throw new InvalidModelException(file + " cannot be read: " + e, e);
        }
    }

    private ModelShape shape() {
        Family family = family();
        for (String key : EXPERT_KEYS) {
            if (root.hasNonNull(key)) {
                throw invalid(key, "makes a mixture of experts, which cannot be planned; give a dense model");
            }
        }
        int hiddenSize = number("hidden_size");
        int numQueryHeads = number("num_attention_heads");
        int numKvHeads = root.hasNonNull("num_key_value_heads") ? number("num_key_value_heads") : numQueryHeads;
        if (numQueryHeads % numKvHeads != 0) {
            throw invalid("num_key_value_heads", "does not divide num_attention_heads = " + numQueryHeads);
        }
        int headDim = headDim(hiddenSize, numQueryHeads);
        int intermediateSize = number("intermediate_size");
        boolean attentionBias = root.path("attention_bias").asBoolean(false);
        long numVectorParameters = ModelShape.vectorParameters(
                        hiddenSize,
                        numQueryHeads * headDim,
                        numKvHeads * headDim,
                        intermediateSize,
                        family.qkvBias() || attentionBias,
                        attentionBias,
                        root.path("mlp_bias").asBoolean(false))
                + (family.numNormsPerLayer() - 2L) * hiddenSize
                + (family.qkNorm() ? 2L * headDim : 0);
        return new ModelShape(
                name(),
                number("vocab_size"),
                hiddenSize,
                number("num_hidden_layers"),
                numQueryHeads,
                numKvHeads,
                headDim,
                intermediateSize,
                root.path("tie_word_embeddings").asBoolean(family.tiedByDefault()),
                numVectorParameters,
                root.hasNonNull("max_position_embeddings") ? number("max_position_embeddings") : 2048);
    }

    private Family family() {
        String type = root.path("model_type").asText("");
        Family family = FAMILIES.get(type);
        if (family == null) {
            throw new InvalidModelException(file + ": 'model_type' = " + root.path("model_type")
                    + " cannot be planned; supported: " + String.join(", ", FAMILIES.keySet()));
        }
        return family;
    }

    /** Gemma and some Qwen sizes have heads that do not fill the hidden size; they say so by head_dim. */
    private int headDim(int hiddenSize, int numQueryHeads) {
        if (root.hasNonNull("head_dim")) {
            return number("head_dim");
        }
        if (hiddenSize % numQueryHeads != 0) {
            throw invalid(
                    "hidden_size",
                    "is no multiple of num_attention_heads = " + numQueryHeads + " and head_dim is absent");
        }
        return hiddenSize / numQueryHeads;
    }

    private String name() {
        Path directory = file.toAbsolutePath().normalize().getParent();
        return directory == null || directory.getFileName() == null
                ? file.toString()
                : directory.getFileName().toString();
    }

    private int number(String key) {
        JsonNode node = root.path(key);
        if (node.isMissingNode() || node.isNull()) {
            throw new InvalidModelException(file + " lacks '" + key + "'; give a decoder's own config.json");
        }
        if (!node.isIntegralNumber() || !node.canConvertToInt() || node.intValue() < 1) {
            throw invalid(key, "must be a whole number from 1 to " + Integer.MAX_VALUE);
        }
        return node.intValue();
    }

    private InvalidModelException invalid(String key, String limit) {
        return new InvalidModelException(file + ": '" + key + "' = " + root.get(key) + " " + limit);
    }
}
