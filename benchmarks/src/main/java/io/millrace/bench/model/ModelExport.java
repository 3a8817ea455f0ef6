package io.millrace.bench.model;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.millrace.engine.InvalidConfigException;
import io.millrace.plan.ModelShape;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.SplittableRandom;

/**
 * Writes random bfloat16 weights of a shape as a Hugging Face directory that any engine can read: config.json, one
 * safetensors file, and a byte-level tokenizer without merges, whose ids beyond the bytes are fillers. Matrices are normal
 * with standard deviation 0.02, as transformers initialises them; norms are 1. Equal shape and seed give equal files.
 */
public final class ModelExport {
    private static final int NUM_SPECIAL_TOKENS = 3;
    private static final int NUM_BYTES = 256;
    private static final int NUM_NORMALS = 1 << 16;
    private static final double STANDARD_DEVIATION = 0.02;
    private static final short ONE = 0x3f80; // 1.0 as bfloat16

    private final ModelShape shape;
    private final boolean isQwen2;
    private final ObjectMapper json = new ObjectMapper();

    private record Weight(String name, long[] dimensions, boolean isNorm) {
        long numElements() {
            long product = 1;
            for (long dimension : dimensions) {
                product *= dimension;
            }
            return product;
        }
    }

    private ModelExport(ModelShape shape) {
        this.shape = shape;
        int queryWidth = shape.numQueryHeads() * shape.headDim();
        int kvWidth = shape.numKvHeads() * shape.headDim();
        long numBiases = shape.numVectorParametersPerLayer() - 2L * shape.hiddenSize();
        isQwen2 = numBiases == queryWidth + 2L * kvWidth;
        if (numBiases != 0 && !isQwen2) {
            throw new InvalidConfigException(
                    "--model",
                    shape.name(),
                    "has " + shape.numVectorParametersPerLayer()
                            + " values of norms and biases a layer: neither Llama's nor Qwen2's layout, and no other can be"
                            + " written",
                    "choose a shape of one of these families");
        }
        if (shape.vocabSize() < NUM_SPECIAL_TOKENS + NUM_BYTES) {
            throw new InvalidConfigException(
                    "--model",
                    shape.name(),
                    "has a vocabulary of " + shape.vocabSize() + ": the tokenizer needs at least "
                            + (NUM_SPECIAL_TOKENS + NUM_BYTES),
                    "choose a larger vocabulary");
        }
    }

    /**
     * Writes a model.
     *
     * @param directory is created; files of the same names in it are replaced
     * @throws IOException if it cannot be written
     */
    public static void write(ModelShape shape, Path directory, long seed) throws IOException {
        ModelExport export = new ModelExport(shape);
        Files.createDirectories(directory);
        export.writeWeights(directory.resolve("model.safetensors"), seed);
        export.writeJson(directory.resolve("tokenizer.json"), export.tokenizer());
        export.writeJson(directory.resolve("tokenizer_config.json"), export.tokenizerConfig());
        export.writeJson(directory.resolve("config.json"), export.config());
    }

    private void writeJson(Path file, ObjectNode content) throws IOException {
        json.writerWithDefaultPrettyPrinter().writeValue(file.toFile(), content);
    }

    private ObjectNode config() {
        ObjectNode config = json.createObjectNode();
        config.putArray("architectures").add(isQwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM");
        config.put("model_type", isQwen2 ? "qwen2" : "llama");
        config.put("vocab_size", shape.vocabSize());
        config.put("hidden_size", shape.hiddenSize());
        config.put("intermediate_size", shape.intermediateSize());
        config.put("num_hidden_layers", shape.numLayers());
        config.put("num_attention_heads", shape.numQueryHeads());
        config.put("num_key_value_heads", shape.numKvHeads());
        config.put("head_dim", shape.headDim());
        config.put("max_position_embeddings", shape.maxPositionEmbeddings());
        config.put("tie_word_embeddings", shape.tiedEmbeddings());
        config.put("rope_theta", 100_000.0);
        config.put("rms_norm_eps", 1e-5);
        config.put("hidden_act", "silu");
        config.put("torch_dtype", "bfloat16");
        config.put("initializer_range", STANDARD_DEVIATION);
        config.put("bos_token_id", 1);
        config.put("eos_token_id", 2);
        config.put("pad_token_id", 2);
        config.put("use_cache", true);
        return config;
    }

    private List<Weight> weights() {
        long hidden = shape.hiddenSize();
        long query = (long) shape.numQueryHeads() * shape.headDim();
        long kv = (long) shape.numKvHeads() * shape.headDim();
        long intermediate = shape.intermediateSize();
        List<Weight> weights = new ArrayList<>();
        weights.add(matrix("model.embed_tokens", shape.vocabSize(), hidden));
        for (int layer = 0; layer < shape.numLayers(); layer++) {
            String prefix = "model.layers." + layer + ".";
            weights.add(norm(prefix + "input_layernorm", hidden));
            addLinear(weights, prefix + "self_attn.q_proj", query, hidden, isQwen2);
            addLinear(weights, prefix + "self_attn.k_proj", kv, hidden, isQwen2);
            addLinear(weights, prefix + "self_attn.v_proj", kv, hidden, isQwen2);
            addLinear(weights, prefix + "self_attn.o_proj", hidden, query, false);
            weights.add(norm(prefix + "post_attention_layernorm", hidden));
            addLinear(weights, prefix + "mlp.gate_proj", intermediate, hidden, false);
            addLinear(weights, prefix + "mlp.up_proj", intermediate, hidden, false);
            addLinear(weights, prefix + "mlp.down_proj", hidden, intermediate, false);
        }
        weights.add(norm("model.norm", hidden));
        if (!shape.tiedEmbeddings()) {
            weights.add(matrix("lm_head", shape.vocabSize(), hidden));
        }
        return weights;
    }

    private static Weight matrix(String module, long outputs, long inputs) {
        return new Weight(module + ".weight", new long[] {outputs, inputs}, false);
    }

    private static Weight norm(String module, long width) {
        return new Weight(module + ".weight", new long[] {width}, true);
    }

    private static void addLinear(List<Weight> weights, String module, long outputs, long inputs, boolean bias) {
        weights.add(matrix(module, outputs, inputs));
        if (bias) {
            weights.add(new Weight(module + ".bias", new long[] {outputs}, false));
        }
    }

    private void writeWeights(Path file, long seed) throws IOException {
        List<Weight> weights = weights();
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file), 1 << 20)) {
            byte[] header = header(weights);
            out.write(ByteBuffer.allocate(Long.BYTES)
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .putLong(header.length)
                    .array());
            out.write(header);
            short[] normals = normals(seed);
            SplittableRandom random = new SplittableRandom(seed);
            for (Weight weight : weights) {
                writeValues(out, weight, normals, random);
            }
        }
    }

    private byte[] header(List<Weight> weights) throws IOException {
        ObjectNode header = json.createObjectNode();
        header.putObject("__metadata__").put("format", "pt");
        long offset = 0;
        for (Weight weight : weights) {
            ObjectNode entry = header.putObject(weight.name());
            entry.put("dtype", "BF16");
            ArrayNode dimensions = entry.putArray("shape");
            for (long dimension : weight.dimensions()) {
                dimensions.add(dimension);
            }
            long end = offset + Short.BYTES * weight.numElements();
            entry.putArray("data_offsets").add(offset).add(end);
            offset = end;
        }
        byte[] text = json.writeValueAsBytes(header);
        byte[] padded = java.util.Arrays.copyOf(text, (text.length + 7) / 8 * 8); // data begins aligned
        java.util.Arrays.fill(padded, text.length, padded.length, (byte) ' ');
        return padded;
    }

    /** Drawing from a table of normals is far faster than drawing normals, and as good for measuring. */
    private static short[] normals(long seed) {
        Random random = new Random(seed);
        short[] normals = new short[NUM_NORMALS];
        for (int i = 0; i < normals.length; i++) {
            int bits = Float.floatToRawIntBits((float) (random.nextGaussian() * STANDARD_DEVIATION));
            normals[i] = (short) ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16);
        }
        return normals;
    }

    private static void writeValues(OutputStream out, Weight weight, short[] normals, SplittableRandom random)
            throws IOException {
        ByteBuffer chunk = ByteBuffer.allocate(1 << 16).order(ByteOrder.LITTLE_ENDIAN);
        long bits = 0;
        for (long i = 0; i < weight.numElements(); i++) {
            if (!chunk.hasRemaining()) {
                out.write(chunk.array());
                chunk.clear();
            }
            if (i % 4 == 0) {
                bits = random.nextLong();
            }
            chunk.putShort(weight.isNorm() ? ONE : normals[(int) (bits & (NUM_NORMALS - 1))]);
            bits >>>= 16;
        }
        out.write(chunk.array(), 0, chunk.position());
    }

    private ObjectNode tokenizer() {
        ObjectNode root = json.createObjectNode();
        root.put("version", "1.0");
        root.putNull("truncation");
        root.putNull("padding");
        ArrayNode added = root.putArray("added_tokens");
        String[] special = {"<unk>", "<s>", "</s>"};
        for (int id = 0; id < special.length; id++) {
            ObjectNode token = added.addObject();
            token.put("id", id);
            token.put("content", special[id]);
            for (String flag : List.of("single_word", "lstrip", "rstrip", "normalized")) {
                token.put(flag, false);
            }
            token.put("special", true);
        }
        root.putNull("normalizer");
        byteLevel(root.putObject("pre_tokenizer"));
        root.putNull("post_processor");
        byteLevel(root.putObject("decoder"));
        ObjectNode model = root.putObject("model");
        model.put("type", "BPE");
        model.putNull("dropout");
        model.put("unk_token", "<unk>");
        model.putNull("continuing_subword_prefix");
        model.putNull("end_of_word_suffix");
        model.put("fuse_unk", false);
        model.put("byte_fallback", false);
        ObjectNode vocabulary = model.putObject("vocab");
        for (int id = 0; id < shape.vocabSize(); id++) {
            vocabulary.put(tokenText(id, special), id);
        }
        model.putArray("merges");
        return root;
    }

    private static void byteLevel(ObjectNode node) {
        node.put("type", "ByteLevel");
        node.put("add_prefix_space", false);
        node.put("trim_offsets", true);
        node.put("use_regex", true);
    }

    private static String tokenText(int id, String[] special) {
        if (id < special.length) {
            return special[id];
        }
        int value = id - special.length;
        return value < NUM_BYTES ? String.valueOf(byteCharacter(value)) : "<t" + id + ">";
    }

    /** The printable character that stands for a byte in GPT-2's byte-level vocabularies. */
    private static char byteCharacter(int value) {
        int numMoved = 0;
        for (int b = 0; b <= value; b++) {
            boolean isPrintable = b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae;
            if (b == value) {
                return (char) (isPrintable ? b : 256 + numMoved);
            }
            numMoved += isPrintable ? 0 : 1;
        }
        throw new IllegalArgumentException(value + " is no byte");
    }

    private ObjectNode tokenizerConfig() {
        ObjectNode config = json.createObjectNode();
        config.put("tokenizer_class", "PreTrainedTokenizerFast");
        config.put("bos_token", "<s>");
        config.put("eos_token", "</s>");
        config.put("unk_token", "<unk>");
        config.put("pad_token", "</s>");
        config.put("clean_up_tokenization_spaces", false);
        config.put("model_max_length", shape.maxPositionEmbeddings());
        return config;
    }
}
