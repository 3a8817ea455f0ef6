package io.millrace.plan;

/**
 * What a model weighs and computes, whatever the device.
 *
 * @param weightBytes W: read once a step, however many rows
 * @param kvBytesPerToken k: read per token of context and step, written once
 * @param gemmFlopsPerToken 2 FLOPs per parameter, the embedding included
 * @param attentionFlopsPerPair FLOPs of one query token with one key token over all layers and query heads: 4 per head and
 *     dimension (2 for the score, 2 for the weighted sum); equals g · k where a KV value takes 2 bytes
 */
public record ModelCost(
        double weightBytes, double kvBytesPerToken, double gemmFlopsPerToken, double attentionFlopsPerPair) {

    public ModelCost {
        requirePositive("weight bytes", weightBytes);
        requirePositive("KV bytes per token", kvBytesPerToken);
        requirePositive("GEMM FLOPs per token", gemmFlopsPerToken);
        requirePositive("attention FLOPs per pair", attentionFlopsPerPair);
    }

    public static ModelCost of(ModelShape shape, Precision precision) {
        return new ModelCost(
                shape.numParameters() * precision.bytesPerParameter(),
                shape.numKvValuesPerToken() * precision.bytesPerKvValue(),
                2.0 * shape.numParameters(),
                2.0 * shape.numKvValuesPerToken() * shape.numQueryHeadsPerKvHead());
    }

    private static void requirePositive(String what, double value) {
        if (!(value > 0) || Double.isInfinite(value)) {
            throw new IllegalArgumentException(what + " = " + value + ": must be a positive number");
        }
    }
}
