/**
 * The arithmetic of a decoder on the CPU that is not a matrix product: norms, rotations, activations, number formats and
 * the folds of attention, each as a Vector API kernel and as a scalar twin of equal bits. Plain arrays in, plain arrays
 * out: it must not know of models, blocks tables, threads or native memory.
 */
package io.millrace.kernels;
