/**
 * What this machine can reach, measured by code of its own: oneDNN products of a model's shapes, attention and exponentials
 * by the same library, streaming reads, float32 products. Must not know the engine or its backends, which are held against
 * it.
 */
package io.millrace.bench.ceiling;
