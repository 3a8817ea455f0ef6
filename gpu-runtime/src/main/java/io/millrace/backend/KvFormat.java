package io.millrace.backend;

/** Number format of KV that leaves the device's memory. */
public enum KvFormat {
    /** The bits that were computed: a loaded block equals a recomputed one. */
    AS_COMPUTED,
    /** 8 bits a number, one scale per token and head; lossy. */
    INT8,
    /** 4 bits a number, one scale per token and head; lossy. */
    INT4;

    public boolean isLossy() {
        return this != AS_COMPUTED;
    }

    /** The option's spelling. */
    public String optionName() {
        return this == AS_COMPUTED ? "as-computed" : name().toLowerCase(java.util.Locale.ROOT);
    }
}
