package io.millrace.plan;

import io.millrace.model.ModelSpec;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * The sizes of a decoder-only transformer that decide what it costs: nothing of its weights' names or values. Vectors that
 * GEMM biases and norms hold count as parameters and as nothing else.
 *
 * @param name how it is called in a plan
 * @param vocabSize rows of the embedding, and logits per position
 * @param hiddenSize width of the residual stream
 * @param numLayers decoder blocks
 * @param numQueryHeads query heads
 * @param numKvHeads key/value heads; divides numQueryHeads
 * @param headDim width of a head
 * @param intermediateSize width of the gated MLP
 * @param tiedEmbeddings whether the LM head is the embedding
 * @param numVectorParametersPerLayer values of a layer's norms and biases
 * @param maxPositionEmbeddings the model's own context limit in tokens
 */
public record ModelShape(
        String name,
        int vocabSize,
        int hiddenSize,
        int numLayers,
        int numQueryHeads,
        int numKvHeads,
        int headDim,
        int intermediateSize,
        boolean tiedEmbeddings,
        long numVectorParametersPerLayer,
        int maxPositionEmbeddings) {

    public ModelShape {
        Objects.requireNonNull(name);
        requirePositive("vocabulary size", vocabSize);
        requirePositive("hidden size", hiddenSize);
        requirePositive("number of layers", numLayers);
        requirePositive("number of query heads", numQueryHeads);
        requirePositive("number of KV heads", numKvHeads);
        requirePositive("head dimension", headDim);
        requirePositive("intermediate size", intermediateSize);
        requirePositive("context limit", maxPositionEmbeddings);
        if (numQueryHeads % numKvHeads != 0) {
            throw new IllegalArgumentException(numKvHeads + " KV heads do not divide " + numQueryHeads
                    + " query heads; each KV head serves the same number of query heads");
        }
        if (numVectorParametersPerLayer < 0) {
            throw new IllegalArgumentException(
                    "values of norms and biases per layer = " + numVectorParametersPerLayer + ": must not be negative");
        }
    }

    /** The shape of a model that the engine has read. */
    public static ModelShape of(String name, ModelSpec spec) {
        long numVectorParameters = vectorParameters(
                spec.hiddenSize(),
                spec.numQueryHeads() * spec.headDim(),
                spec.numKvHeads() * spec.headDim(),
                spec.intermediateSize(),
                spec.attentionBias(),
                spec.attentionBias(),
                spec.mlpBias());
        return new ModelShape(
                name,
                spec.vocabSize(),
                spec.hiddenSize(),
                spec.numLayers(),
                spec.numQueryHeads(),
                spec.numKvHeads(),
                spec.headDim(),
                spec.intermediateSize(),
                spec.tiedEmbeddings(),
                numVectorParameters,
                spec.maxPositionEmbeddings());
    }

    /** Values of a layer's two norms and of the biases it has. */
    static long vectorParameters(
            int hiddenSize,
            int queryWidth,
            int kvWidth,
            int intermediateSize,
            boolean qkvBias,
            boolean outputBias,
            boolean mlpBias) {
        long count = 2L * hiddenSize;
        count += qkvBias ? queryWidth + 2L * kvWidth : 0;
        count += outputBias ? hiddenSize : 0;
        count += mlpBias ? 2L * intermediateSize + hiddenSize : 0;
        return count;
    }

    /** Every value of the checkpoint, embedding and norms included; a tied embedding counts once. */
    public long numParameters() {
        long queryWidth = (long) numQueryHeads * headDim;
        long kvWidth = (long) numKvHeads * headDim;
        long layer = 2 * hiddenSize * queryWidth
                + 2 * hiddenSize * kvWidth
                + 3L * hiddenSize * intermediateSize
                + numVectorParametersPerLayer;
        long embeddings = (tiedEmbeddings ? 1L : 2L) * vocabSize * hiddenSize;
        return embeddings + numLayers * layer + hiddenSize;
    }

    /** Keys and values that one token leaves behind, over all layers. */
    public long numKvValuesPerToken() {
        return 2L * numLayers * numKvHeads * headDim;
    }

    /** g: query heads that share a KV head. */
    public int numQueryHeadsPerKvHead() {
        return numQueryHeads / numKvHeads;
    }

    /** The distinct matrices of the linear layers, equal ones merged, in order of use. */
    public List<GemmShape> gemms() {
        int queryWidth = numQueryHeads * headDim;
        int kvWidth = numKvHeads * headDim;
        List<GemmShape> gemms = new ArrayList<>();
        merge(gemms, new GemmShape("q", hiddenSize, queryWidth));
        merge(gemms, new GemmShape("k, v", hiddenSize, kvWidth));
        merge(gemms, new GemmShape("o", queryWidth, hiddenSize));
        merge(gemms, new GemmShape("gate, up", hiddenSize, intermediateSize));
        merge(gemms, new GemmShape("down", intermediateSize, hiddenSize));
        merge(gemms, new GemmShape("LM head", hiddenSize, vocabSize));
        return List.copyOf(gemms);
    }

    private static void merge(List<GemmShape> gemms, GemmShape gemm) {
        for (int i = 0; i < gemms.size(); i++) {
            GemmShape other = gemms.get(i);
            if (other.numInputs() == gemm.numInputs() && other.numOutputs() == gemm.numOutputs()) {
                gemms.set(
                        i, new GemmShape(other.layers() + ", " + gemm.layers(), other.numInputs(), other.numOutputs()));
                return;
            }
        }
        gemms.add(gemm);
    }

    private static void requirePositive(String what, int value) {
        if (value < 1) {
            throw new IllegalArgumentException(what + " = " + value + ": must be at least 1");
        }
    }
}
