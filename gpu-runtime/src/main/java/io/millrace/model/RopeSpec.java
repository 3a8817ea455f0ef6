package io.millrace.model;

/**
 * Rotary position embedding (Su et al., RoFormer) in the half-split layout of Hugging Face checkpoints: dimension d of the
 * first half turns with dimension d + rotaryDim/2 by the angle position × inverseFrequencies[d].
 *
 * @param rotaryDim dimensions of a head that turn, from 0; even
 * @param inverseFrequencies [rotaryDim / 2] radians per position, scaling (linear, llama3) already applied; computed in
 *     double and rounded once
 */
public record RopeSpec(int rotaryDim, float[] inverseFrequencies) {}
