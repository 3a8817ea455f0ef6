package io.millrace.prefix;

import java.util.Locale;

/** Why a loaded chunk is not believed. Every doubt is a miss, counted under its label. */
public enum ChunkDoubt {
    /** Fewer or more pieces than a chunk has. */
    NUM_PIECES,
    /** A piece is shorter or longer than its header says, or has no whole header. */
    LENGTH,
    /** The bytes do not begin as a piece does. */
    MAGIC,
    /** Written by another version of the piece format. */
    FORMAT_VERSION,
    /** The checksum does not fit the bytes. */
    CHECKSUM,
    /** Another chunk. */
    KEY,
    /** Written under another model, policy version, kernel or salt. */
    FINGERPRINT,
    /** KV of another shape. */
    LAYOUT,
    /** KV in another number format. */
    KV_FORMAT,
    /** Chunks of another length. */
    CHUNK_TOKENS,
    /** Another piece of the chunk than belongs here. */
    PIECE_ORDER,
    /** KV of other tokens: two prefixes met in one hash. */
    TOKENS;

    /** The value of the metric's label {@code reason}. */
    public String label() {
        return name().toLowerCase(Locale.ROOT);
    }
}
