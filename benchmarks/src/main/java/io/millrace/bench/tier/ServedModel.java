package io.millrace.bench.tier;

/** The models of the published figures, by what their KV and their attention weigh. */
public enum ServedModel {
    /** LongAlpaca-7B: every query head has a KV head of its own. */
    MULTI_HEAD_7B("7B", 32, 4096, 32, 128, 6.74e9),
    /** LongAlpaca-13B, multi-head too. */
    MULTI_HEAD_13B("13B", 40, 5120, 40, 128, 13.02e9),
    /** Llama-3.1-8B: 8 KV heads. */
    GROUPED_8B("8B", 32, 4096, 8, 128, 8.03e9),
    /** Llama-3.1-70B: 8 KV heads. */
    GROUPED_70B("70B", 80, 8192, 8, 128, 70.6e9);

    private static final int COMPUTED_BITS = 16;

    private final String label;
    private final int numLayers;
    private final int hiddenSize;
    private final int numKvHeads;
    private final int headDim;
    private final double numParameters;

    ServedModel(String label, int numLayers, int hiddenSize, int numKvHeads, int headDim, double numParameters) {
        this.label = label;
        this.numLayers = numLayers;
        this.hiddenSize = hiddenSize;
        this.numKvHeads = numKvHeads;
        this.headDim = headDim;
        this.numParameters = numParameters;
    }

    /** How reports call it. */
    public String label() {
        return label;
    }

    /** Bytes of the KV of so many tokens when every number is stored in so many bits. */
    public double storedBytes(int numTokens, int bits) {
        double computedBytes = 2.0 * numLayers * numKvHeads * headDim * COMPUTED_BITS / Byte.SIZE;
        return numTokens * computedBytes * bits / COMPUTED_BITS;
    }

    /**
     * How much a token's cost grows with its position, as a share of its cost at position 0, by operations: two products with
     * all keys and values before it over the products with all parameters.
     */
    double positionShare() {
        return 4.0 * numLayers * hiddenSize / (2 * numParameters);
    }

    static ServedModel named(String label) {
        for (ServedModel model : values()) {
            if (model.label.equals(label)) {
                return model;
            }
        }
        throw new IllegalArgumentException("no model is called '" + label + "'");
    }
}
