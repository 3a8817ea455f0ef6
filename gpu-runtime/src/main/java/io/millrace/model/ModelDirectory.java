package io.millrace.model;

import io.millrace.model.ModelSpec.Weight;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * An opened model directory in Hugging Face format. Opening reads config.json, generation_config.json and the safetensors
 * headers, and checks every weight's presence and shape; data is memory-mapped at first use, so the files must stay
 * unchanged while this object lives. Immutable; any thread.
 */
public final class ModelDirectory {
    private final Path path;
    private final ModelSpec spec;
    private final StorageType declaredType;
    private final GenerationDefaults generationDefaults;
    private final Safetensors tensors;
    private volatile String fingerprint;

    private ModelDirectory(
            Path path,
            ModelSpec spec,
            StorageType declaredType,
            GenerationDefaults generationDefaults,
            Safetensors tensors) {
        this.path = path;
        this.spec = spec;
        this.declaredType = declaredType;
        this.generationDefaults = generationDefaults;
        this.tensors = tensors;
    }

    /**
     * Opens and validates.
     *
     * @throws InvalidModelException naming the file, the key or tensor, what is wrong and the remedy
     */
    public static ModelDirectory open(Path directory) {
        Path path = directory.toAbsolutePath().normalize();
        if (!Files.isDirectory(path)) {
            throw new InvalidModelException(path + " is no directory; a model is a directory in Hugging Face format");
        }
        JsonFile config = JsonFile.read(path.resolve("config.json"));
        ModelFamily family = ModelFamily.of(config);
        GenerationDefaults defaults = GenerationDefaults.NONE;
        Set<Integer> generationEosTokenIds = new LinkedHashSet<>();
        Path generationFile = path.resolve("generation_config.json");
        if (Files.exists(generationFile)) {
            JsonFile generation = JsonFile.read(generationFile);
            defaults = GenerationDefaults.read(generation);
            DecoderConfig.collectTokenIds(generation, "eos_token_id", Integer.MAX_VALUE, generationEosTokenIds);
        }
        ModelSpec spec = family.describe(config, new ArrayList<>(generationEosTokenIds));
        Safetensors tensors = Safetensors.open(path);
        ModelDirectory model =
                new ModelDirectory(path, spec, new DecoderConfig(config).declaredType(), defaults, tensors);
        new WeightCheck(spec, tensors, path).run();
        return model;
    }

    /** Absolute. */
    public Path path() {
        return path;
    }

    public ModelSpec spec() {
        return spec;
    }

    /** The number format that config.json declares (dtype or torch_dtype); null when it declares none. */
    public StorageType declaredType() {
        return declaredType;
    }

    public GenerationDefaults generationDefaults() {
        return generationDefaults;
    }

    public Safetensors tensors() {
        return tensors;
    }

    /**
     * Gets a weight. With tied embeddings the LM head is the embedding.
     *
     * @param layer 0 … numLayers - 1; ignored for weights outside of the layers
     * @throws InvalidModelException when the spec has no such weight, or the checkpoint lacks it or has it in another shape
     */
    public Tensor weight(Weight weight, int layer) {
        return new WeightCheck(spec, tensors, path).require(weight, layer);
    }

    /**
     * A SHA-256 over the files that decide what the model answers: config.json, generation_config.json, the tokenizer's
     * files and all tensors by name (so that sharding does not matter). Streams all weights at the first call, seconds for
     * gigabytes; then remembered. Any thread.
     */
    public String fingerprint() {
        String result = fingerprint;
        if (result == null) {
            synchronized (this) {
                result = fingerprint;
                if (result == null) {
                    result = new ModelFingerprint().compute(path, tensors);
                    fingerprint = result;
                }
            }
        }
        return result;
    }

    public boolean hasTokenizer() {
        return Files.exists(path.resolve("tokenizer.json"));
    }

    /** The file names whose content the fingerprint covers beside the tensors. */
    static List<String> fingerprintedFiles() {
        return List.of(
                "config.json",
                "generation_config.json",
                "tokenizer.json",
                "tokenizer_config.json",
                "special_tokens_map.json",
                "chat_template.jinja");
    }
}
