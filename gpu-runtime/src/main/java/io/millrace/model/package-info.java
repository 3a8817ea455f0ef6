/**
 * Reads Hugging Face model directories: config.json and generation_config.json become a {@link io.millrace.model.ModelSpec}
 * (a decoder described by data, one mapping per family), safetensors files become memory-mapped {@link
 * io.millrace.model.Tensor}s checked against it. Owns file formats and weight names; must not know devices, batching or
 * tokenization.
 */
package io.millrace.model;
