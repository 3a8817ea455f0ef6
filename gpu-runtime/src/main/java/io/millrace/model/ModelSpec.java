package io.millrace.model;

import java.util.List;

/**
 * A decoder-only transformer described by data: pre-norm blocks of grouped-query attention with rotary positions and a
 * gated MLP. A family (Llama, …) is a mapping from its config.json and weight names to this record; backends implement the
 * decoder once. Weights are stored as in Hugging Face checkpoints: a linear layer's matrix is [outputs, inputs].
 *
 * @param family model_type of config.json
 * @param vocabSize rows of the embedding, and logits per position
 * @param hiddenSize width of the residual stream
 * @param numLayers decoder blocks
 * @param numQueryHeads query heads
 * @param numKvHeads key/value heads; divides numQueryHeads
 * @param headDim width of a head
 * @param intermediateSize width of the MLP
 * @param rmsNormEps added to the mean square before the root
 * @param rope rotary position embedding
 * @param activation of the MLP's gate
 * @param attentionBias whether q, k, v and o have biases
 * @param mlpBias whether gate, up and down have biases
 * @param tiedEmbeddings whether the LM head is the embedding
 * @param maxPositionEmbeddings the model's own context limit in tokens
 * @param bosTokenId -1 if none
 * @param eosTokenIds every id that ends a generation by config.json and generation_config.json together; may be empty
 * @param names where each weight is in the checkpoint
 */
public record ModelSpec(
        String family,
        int vocabSize,
        int hiddenSize,
        int numLayers,
        int numQueryHeads,
        int numKvHeads,
        int headDim,
        int intermediateSize,
        float rmsNormEps,
        RopeSpec rope,
        Activation activation,
        boolean attentionBias,
        boolean mlpBias,
        boolean tiedEmbeddings,
        int maxPositionEmbeddings,
        int bosTokenId,
        List<Integer> eosTokenIds,
        WeightNames names) {

    public ModelSpec {
        eosTokenIds = List.copyOf(eosTokenIds);
    }

    /** The MLP gate's activation. */
    public enum Activation {
        SILU
    }

    /** What a weight is for. Per-layer roles take a layer number. */
    public enum Weight {
        EMBEDDING,
        FINAL_NORM,
        LM_HEAD,
        ATTENTION_NORM,
        QUERY,
        QUERY_BIAS,
        KEY,
        KEY_BIAS,
        VALUE,
        VALUE_BIAS,
        ATTENTION_OUTPUT,
        ATTENTION_OUTPUT_BIAS,
        MLP_NORM,
        GATE,
        GATE_BIAS,
        UP,
        UP_BIAS,
        DOWN,
        DOWN_BIAS
    }

    /** Gives the checkpoint's tensor name of a weight; layer is ignored for weights outside the layers. */
    public interface WeightNames {
        String tensorName(Weight weight, int layer);
    }

    public int numQueryHeadsPerKvHead() {
        return numQueryHeads / numKvHeads;
    }
}
