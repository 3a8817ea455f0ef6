package io.millrace.model;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** What the families' config.json files have in common: derived sizes, token ids, and keys that ask for the unsupported. */
final class DecoderConfig {
    private static final String REFUSAL = "is not supported; use a checkpoint without it";
    /** Keys that change the computation whenever they are there at all. */
    private static final List<String> UNSUPPORTED_WHEN_SET = List.of(
            "quantization_config",
            "compression_config",
            "attn_logit_softcapping",
            "final_logit_softcapping",
            "no_rope_layers",
            "no_rope_layer_interval",
            "num_experts",
            "num_local_experts",
            "n_routed_experts",
            "query_pre_attn_scalar",
            "embedding_multiplier",
            "residual_multiplier",
            "attention_multiplier",
            "logits_scaling");
    /** Flags that change the computation when true. */
    private static final List<String> UNSUPPORTED_WHEN_TRUE = List.of(
            "is_encoder_decoder",
            "add_cross_attention",
            "use_bidirectional_attention",
            "use_qk_norm",
            "rope_interleaved");

    private final JsonFile json;

    DecoderConfig(JsonFile json) {
        this.json = json;
    }

    void refuseUnsupported() {
        for (String key : UNSUPPORTED_WHEN_SET) {
            if (json.has(key)) {
                throw json.invalid(key, REFUSAL);
            }
        }
        for (String key : UNSUPPORTED_WHEN_TRUE) {
            if (json.optionalBoolean(key, false)) {
                throw json.invalid(key, REFUSAL);
            }
        }
        String activation = json.optionalText("hidden_act", "silu");
        if (!activation.equals("silu")) {
            throw json.invalid("hidden_act", "is not supported; supported: silu");
        }
        if (json.has("sliding_window") && json.optionalBoolean("use_sliding_window", true)) {
            throw json.invalid("sliding_window", REFUSAL);
        }
        for (JsonNode type : json.get("layer_types")) {
            if (!type.asText().equals("full_attention")) {
                throw json.invalid(
                        "layer_types", "holds " + type + ", which is not supported; supported: full_attention");
            }
        }
        if (json.get("auto_map").has("AutoModelForCausalLM")) {
            throw json.invalid("auto_map", "asks for the checkpoint's own Python code, which " + REFUSAL);
        }
        if (json.optionalNumber("partial_rotary_factor", 1) != 1) {
            throw json.invalid("partial_rotary_factor", REFUSAL);
        }
        declaredType();
    }

    /** The number format that the file declares under its newer or older key; null when it declares none. */
    StorageType declaredType() {
        String key = json.has("dtype") ? "dtype" : "torch_dtype";
        String name = json.optionalText(key, null);
        StorageType type = name == null ? null : StorageType.ofConfig(name);
        if (name != null && type == null) {
            throw json.invalid(key, "is not supported; supported: float32, float16, bfloat16");
        }
        return type;
    }

    int headDim(int hiddenSize, int numQueryHeads) {
        if (!json.has("head_dim") && hiddenSize % numQueryHeads != 0) {
            throw json.invalid(
                    "hidden_size",
                    "is no multiple of num_attention_heads = " + numQueryHeads + " and head_dim is absent");
        }
        int headDim = json.optionalInt("head_dim", hiddenSize / numQueryHeads, 2);
        if (headDim % 2 != 0 || headDim < 2) {
            throw new InvalidModelException(
                    json.where() + ": heads of " + headDim + " dimensions cannot turn in pairs; head_dim must be even");
        }
        return headDim;
    }

    int numKvHeads(int numQueryHeads) {
        int numKvHeads = json.optionalInt("num_key_value_heads", numQueryHeads, 1);
        if (numQueryHeads % numKvHeads != 0) {
            throw json.invalid("num_key_value_heads", "does not divide num_attention_heads = " + numQueryHeads);
        }
        return numKvHeads;
    }

    float rmsNormEps(double absent) {
        double eps = json.optionalNumber("rms_norm_eps", absent);
        if (eps < 0 || eps > 1) {
            throw json.invalid("rms_norm_eps", "must lie in [0, 1]");
        }
        return (float) eps;
    }

    /** -1 when the file says null; the family's own default when it says nothing and the vocabulary has that id. */
    int bosTokenId(int absent, int vocabSize) {
        if (!json.mentions("bos_token_id")) {
            return absent < vocabSize ? absent : -1;
        }
        Set<Integer> ids = new LinkedHashSet<>();
        collectTokenIds(json, "bos_token_id", vocabSize, ids);
        return ids.isEmpty() ? -1 : ids.iterator().next();
    }

    /**
     * The ids of config.json, then those of generation_config.json: vLLM too ends at the ids of both. The family's default
     * counts only when neither file gives any and config.json does not say null.
     */
    List<Integer> eosTokenIds(int absent, int vocabSize, List<Integer> generationEosTokenIds) {
        Set<Integer> ids = new LinkedHashSet<>();
        collectTokenIds(json, "eos_token_id", vocabSize, ids);
        ids.addAll(generationEosTokenIds);
        if (ids.isEmpty() && !json.mentions("eos_token_id") && absent < vocabSize) {
            ids.add(absent);
        }
        for (int id : ids) {
            if (id >= vocabSize) {
                throw new InvalidModelException("eos_token_id " + id + " of generation_config.json beside "
                        + json.where() + " is outside of the vocabulary of " + vocabSize);
            }
        }
        return new ArrayList<>(ids);
    }

    /** Adds the id, or the ids of the list, under a key. */
    static void collectTokenIds(JsonFile json, String key, int vocabSize, Set<Integer> ids) {
        if (!json.has(key)) {
            return;
        }
        JsonNode node = json.get(key);
        for (JsonNode id : node.isArray() ? node : List.of(node)) {
            if (!id.isIntegralNumber() || !id.canConvertToInt() || id.intValue() < 0 || id.intValue() >= vocabSize) {
                throw json.invalid(key, "must be a token id, or a list of them, below the vocabulary size");
            }
            ids.add(id.intValue());
        }
    }
}
