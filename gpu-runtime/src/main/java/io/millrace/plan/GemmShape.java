package io.millrace.plan;

/**
 * A linear layer's matrix.
 *
 * @param layers what it serves, for example {@code q, o}
 * @param numInputs K, the row's length before
 * @param numOutputs N, the row's length after
 */
public record GemmShape(String layers, int numInputs, int numOutputs) {}
