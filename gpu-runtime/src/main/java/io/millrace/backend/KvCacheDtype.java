package io.millrace.backend;

import java.util.Locale;

/** Number format of KV in the device's memory, under vLLM's names. */
public enum KvCacheDtype {
    /** That of the computation: nothing is lost. */
    AUTO,
    /** 8 bits a number, and one scale for each token's key and value of a head: nearly twice the sequences; lossy. */
    INT8;

    /** The option's spelling. */
    public String optionName() {
        return name().toLowerCase(Locale.ROOT);
    }
}
