package io.millrace.prefix;

import io.millrace.backend.KvFormat;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;

/**
 * Names chunks: each key is the first half of a SHA-256 over the key before it and the chunk's tokens; a chain begins with a
 * hash of all that its KV depends on beside tokens. Engine thread only.
 */
final class ChunkHasher {
    /** Rises when chunks of the same key would be laid out or computed in another way. */
    private static final int LAYOUT_VERSION = 1;

    private final MessageDigest sha256;
    private final KvFormat format;
    private final int chunkTokens;
    private final ByteBuffer buffer;

    ChunkHasher(KvFormat format, int chunkTokens) {
        try {
            sha256 = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
        this.format = format;
        this.chunkTokens = chunkTokens;
        buffer = ByteBuffer.allocate(ChunkKey.NUM_BYTES + chunkTokens * Integer.BYTES);
    }

    /** Where the chains of a salt begin. */
    private ChunkKey root(String salt) {
        String start = "millrace chunk " + LAYOUT_VERSION + "; kv " + format.optionName() + "; tokens " + chunkTokens
                + "; salt " + salt;
        return ChunkKey.read(ByteBuffer.wrap(sha256.digest(start.getBytes(StandardCharsets.UTF_8))));
    }

    private ChunkKey next(ChunkKey parent, int[] tokenIds, int from) {
        buffer.clear();
        buffer.putLong(parent.high()).putLong(parent.low());
        for (int i = from; i < from + chunkTokens; i++) {
            buffer.putInt(tokenIds[i]);
        }
        return ChunkKey.read(ByteBuffer.wrap(sha256.digest(buffer.array())));
    }

    /** The keys of all whole chunks among the first numTokens tokens. */
    List<ChunkKey> chain(String salt, int[] tokenIds, int numTokens) {
        List<ChunkKey> keys = new ArrayList<>(numTokens / chunkTokens);
        extend(keys, salt, tokenIds, numTokens);
        return keys;
    }

    /** Adds the keys of further whole chunks among the first numTokens tokens. */
    void extend(List<ChunkKey> keys, String salt, int[] tokenIds, int numTokens) {
        if ((keys.size() + 1) * chunkTokens > numTokens) {
            return;
        }
        ChunkKey key = keys.isEmpty() ? root(salt) : keys.get(keys.size() - 1);
        while ((keys.size() + 1) * chunkTokens <= numTokens) {
            key = next(key, tokenIds, keys.size() * chunkTokens);
            keys.add(key);
        }
    }
}
