package io.millrace.kvcache;

/** The hash chain of token blocks: a block's hash covers its tokens, everything before them, and the salt. */
final class BlockHash {
    private static final long MULTIPLIER = 0x9E3779B97F4A7C15L;

    private BlockHash() {}

    /** The chain's start: keeps chains of different salts apart. */
    static long ofSalt(String salt) {
        long hash = 0x243F6A8885A308D3L;
        for (int i = 0; i < salt.length(); i++) {
            hash = mix(hash, salt.charAt(i));
        }
        return hash;
    }

    /** Extends a chain by the tokens from … from + count - 1. */
    static long extend(long parentHash, int[] tokenIds, int from, int count) {
        long hash = parentHash;
        for (int i = from; i < from + count; i++) {
            hash = mix(hash, tokenIds[i]);
        }
        return hash;
    }

    private static long mix(long hash, int value) {
        long x = (hash ^ value) * MULTIPLIER;
        x ^= x >>> 32;
        x *= MULTIPLIER;
        return x ^ (x >>> 29);
    }
}
