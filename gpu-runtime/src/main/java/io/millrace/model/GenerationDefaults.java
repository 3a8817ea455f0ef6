package io.millrace.model;

/** The sampling settings of generation_config.json; null where it gives none. */
public record GenerationDefaults(
        Float temperature, Float topP, Integer topK, Float minP, Float repetitionPenalty, Integer maxNewTokens) {}
