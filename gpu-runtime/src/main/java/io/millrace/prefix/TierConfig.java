package io.millrace.prefix;

import io.millrace.backend.KvFormat;
import java.io.Serializable;
import java.util.Objects;

/**
 * How the engine uses a prefix store.
 *
 * @param format KV in the store
 * @param chunkTokens tokens of a chunk, a multiple of the block size
 * @param storeFirstUse whether a prefix is stored the first time it is seen; else when it is seen again
 * @param maxBufferBytes loaded chunks that wait in memory for their request's turn
 * @param loadTimeoutMillis a chunk that takes longer is a miss
 * @param loadingLast whether prompts that are being loaded are computed after all others (Cake's adaptive order); else in the
 *     order of service, which is only there to be compared with
 */
public record TierConfig(
        KvFormat format,
        int chunkTokens,
        boolean storeFirstUse,
        long maxBufferBytes,
        long loadTimeoutMillis,
        boolean loadingLast)
        implements Serializable {
    /** Tokens of a chunk unless told otherwise; as in Cake. */
    public static final int DEFAULT_CHUNK_TOKENS = 128;

    public static final TierConfig DEFAULT =
            new TierConfig(KvFormat.AS_COMPUTED, DEFAULT_CHUNK_TOKENS, false, 256L << 20, 10_000);

    public TierConfig {
        Objects.requireNonNull(format);
        requirePositive("chunk of", chunkTokens, "tokens; use 128");
        requirePositive("buffer of", maxBufferBytes, "bytes; use 256m");
        requirePositive("load timeout of", loadTimeoutMillis, "ms; use 10000");
    }

    /** Computes prompts that are being loaded after all others. */
    public TierConfig(
            KvFormat format, int chunkTokens, boolean storeFirstUse, long maxBufferBytes, long loadTimeoutMillis) {
        this(format, chunkTokens, storeFirstUse, maxBufferBytes, loadTimeoutMillis, true);
    }

    /** The same with all prompts in the order of service. */
    public TierConfig inOrderOfService() {
        return new TierConfig(format, chunkTokens, storeFirstUse, maxBufferBytes, loadTimeoutMillis, false);
    }

    private static void requirePositive(String what, long value, String unitAndRemedy) {
        if (value < 1) {
            throw new IllegalArgumentException(
                    "the prefix tier has a " + what + " " + value + " " + unitAndRemedy + ": it must be at least 1");
        }
    }
}
