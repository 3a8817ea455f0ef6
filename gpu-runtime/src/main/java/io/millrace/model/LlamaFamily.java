package io.millrace.model;

import io.millrace.model.ModelSpec.Activation;
import io.millrace.model.ModelSpec.Weight;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Llama 1 to 3.x and everything published in its format (SmolLM2, TinyLlama, …). Absent keys as in transformers. */
final class LlamaFamily implements ModelFamily {
    private static final Map<Weight, String> LAYER_NAMES = Map.ofEntries(
            Map.entry(Weight.ATTENTION_NORM, "input_layernorm.weight"),
            Map.entry(Weight.QUERY, "self_attn.q_proj.weight"),
            Map.entry(Weight.QUERY_BIAS, "self_attn.q_proj.bias"),
            Map.entry(Weight.KEY, "self_attn.k_proj.weight"),
            Map.entry(Weight.KEY_BIAS, "self_attn.k_proj.bias"),
            Map.entry(Weight.VALUE, "self_attn.v_proj.weight"),
            Map.entry(Weight.VALUE_BIAS, "self_attn.v_proj.bias"),
            Map.entry(Weight.ATTENTION_OUTPUT, "self_attn.o_proj.weight"),
            Map.entry(Weight.ATTENTION_OUTPUT_BIAS, "self_attn.o_proj.bias"),
            Map.entry(Weight.MLP_NORM, "post_attention_layernorm.weight"),
            Map.entry(Weight.GATE, "mlp.gate_proj.weight"),
            Map.entry(Weight.GATE_BIAS, "mlp.gate_proj.bias"),
            Map.entry(Weight.UP, "mlp.up_proj.weight"),
            Map.entry(Weight.UP_BIAS, "mlp.up_proj.bias"),
            Map.entry(Weight.DOWN, "mlp.down_proj.weight"),
            Map.entry(Weight.DOWN_BIAS, "mlp.down_proj.bias"));

    @Override
    public String modelType() {
        return "llama";
    }

    @Override
    public Set<String> architectures() {
        return Set.of("LlamaForCausalLM");
    }

    @Override
    public ModelSpec describe(JsonFile json, List<Integer> generationEosTokenIds) {
        DecoderConfig config = new DecoderConfig(json);
        config.refuseUnsupported();
        int hiddenSize = json.requireInt("hidden_size", 1);
        int numQueryHeads = json.requireInt("num_attention_heads", 1);
        int headDim = config.headDim(hiddenSize, numQueryHeads);
        int vocabSize = json.requireInt("vocab_size", 1);
        int maxPositionEmbeddings = json.optionalInt("max_position_embeddings", 2048, 1);
        return new ModelSpec(
                modelType(),
                vocabSize,
                hiddenSize,
                json.requireInt("num_hidden_layers", 1),
                numQueryHeads,
                config.numKvHeads(numQueryHeads),
                headDim,
                json.requireInt("intermediate_size", 1),
                config.rmsNormEps(1e-6),
                RopeConfig.read(json, headDim, 10_000),
                Activation.SILU,
                json.optionalBoolean("attention_bias", false),
                json.optionalBoolean("mlp_bias", false),
                json.optionalBoolean("tie_word_embeddings", false),
                maxPositionEmbeddings,
                config.bosTokenId(1, vocabSize),
                config.eosTokenIds(2, vocabSize, generationEosTokenIds),
                LlamaFamily::tensorName);
    }

    private static String tensorName(Weight weight, int layer) {
        switch (weight) {
            case EMBEDDING:
                return "model.embed_tokens.weight";
            case FINAL_NORM:
                return "model.norm.weight";
            case LM_HEAD:
                return "lm_head.weight";
            default:
                return "model.layers." + layer + "." + LAYER_NAMES.get(weight);
        }
    }
}
