/**
 * The arithmetic of a decoder on the CPU that is not left to the matrix library: norms, rotations, activations, number formats,
 * the folds of attention and products of a row by itself, each as a Vector API kernel and as a scalar twin of equal bits. Plain
 * arrays in, plain arrays out, but for panels of weights in a buffer: it must not know of models, block tables, threads or who
 * owns memory.
 */
package io.millrace.kernels;
