package io.millrace.prefix;

import java.nio.ByteBuffer;

/**
 * Names a chunk: 128 bits of a chained SHA-256 over its tokens, all tokens before them, and everything else that its KV
 * depends on (model, numeric fingerprint, policy version, adapter, cache salt, format).
 */
public record ChunkKey(long high, long low) {
    /** Bytes of {@link #toBytes()}. */
    public static final int NUM_BYTES = 16;

    /** Big-endian. */
    public byte[] toBytes() {
        return ByteBuffer.allocate(NUM_BYTES).putLong(high).putLong(low).array();
    }

    /** The key written at the buffer's position. */
    public static ChunkKey read(ByteBuffer buffer) {
        return new ChunkKey(buffer.getLong(), buffer.getLong());
    }

    @Override
    public String toString() {
        return String.format("%016x%016x", high, low);
    }
}
