package io.millrace.backend;

/** Compute and KV number format, under vLLM's names (auto, bfloat16, float32). */
public enum Dtype {
    AUTO,
    BFLOAT16,
    FLOAT32;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }
}
