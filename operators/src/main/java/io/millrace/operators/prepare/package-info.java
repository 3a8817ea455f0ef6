/**
 * From a parsed prompt to a request the engine can take: chat template, tokenising, checks against vocabulary and context
 * length, and the resolution of settings (request, then command line, then generation_config.json, then built-in). A record
 * that cannot be used becomes an error that travels on in its place. Must not know the engine's inside nor Flink state.
 */
package io.millrace.operators.prepare;
