/**
 * Models to measure: random weights of a named shape, written as a Hugging Face directory. Knows file formats; must not know
 * engines or scenarios.
 */
package io.millrace.bench.model;
