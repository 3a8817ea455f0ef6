package io.millrace.prefix;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/**
 * The first {@value #NUM_BYTES} bytes of a piece, big-endian: magic, format version, CRC32C of all bytes but its own four,
 * chunk key, hash of the fingerprint, layout, number format, tokens of a chunk, piece number and number of pieces, first unit
 * and number of units, payload bytes. A codec has one, with everything in it that all of its pieces have in common.
 */
record PieceHeader(
        long fingerprintHigh, long fingerprintLow, KvLayout layout, KvFormat format, int chunkTokens, int numPieces) {
    /** Goes up whenever pieces mean something else, the layout of units included. */
    static final int FORMAT_VERSION = 1;

    static final int NUM_BYTES = 92;

    private static final int MAGIC = 0x4d4b5650; // MKVP
    private static final int MAGIC_AT = 0;
    private static final int VERSION_AT = 4;
    private static final int CHECKSUM_AT = 8;
    private static final int AFTER_CHECKSUM = 12;
    private static final int CHUNK_TOKENS_AT = 68;
    private static final int INDEX_AT = 72;
    private static final int PAYLOAD_BYTES_AT = 88;

    void write(byte[] piece, ChunkKey key, int index, int firstUnit, int numUnits, int payloadBytes) {
        ByteBuffer buffer = ByteBuffer.wrap(piece);
        buffer.putInt(MAGIC).putInt(FORMAT_VERSION).putInt(0);
        buffer.putLong(key.high()).putLong(key.low());
        buffer.putLong(fingerprintHigh).putLong(fingerprintLow);
        buffer.putInt(layout.numLayers()).putInt(layout.numKvHeads()).putInt(layout.headDim());
        buffer.putInt(layout.blockSize()).putInt(layout.computedBytes());
        buffer.putInt(code(format)).putInt(chunkTokens);
        buffer.putInt(index).putInt(numPieces).putInt(firstUnit).putInt(numUnits);
        buffer.putInt(payloadBytes);
    }

    private static int code(KvFormat format) {
        return switch (format) {
            case AS_COMPUTED -> 0;
            case INT8 -> 1;
            case INT4 -> 2;
        };
    }

    static void seal(byte[] piece) {
        ByteBuffer.wrap(piece).putInt(CHECKSUM_AT, checksum(piece));
    }

    private static int checksum(byte[] piece) {
        CRC32C crc = new CRC32C();
        crc.update(piece, 0, CHECKSUM_AT);
        crc.update(piece, AFTER_CHECKSUM, piece.length - AFTER_CHECKSUM);
        return (int) crc.getValue();
    }

    /** Form and checksum first: what they let through was written as it stands, so a difference tells another origin. */
    ChunkCodec.Refusal check(byte[] piece, ChunkKey key, int index, int firstUnit, int numUnits, int payloadBytes) {
        if (piece.length < NUM_BYTES) {
            return refuse(ChunkDoubt.LENGTH, index, "has " + piece.length + " bytes, a header " + NUM_BYTES);
        }
        ByteBuffer buffer = ByteBuffer.wrap(piece);
        if (buffer.getInt(MAGIC_AT) != MAGIC) {
            return refuse(ChunkDoubt.MAGIC, index, "begins with " + Integer.toHexString(buffer.getInt(MAGIC_AT)));
        }
        if (buffer.getInt(VERSION_AT) != FORMAT_VERSION) {
            return refuse(
                    ChunkDoubt.FORMAT_VERSION,
                    index,
                    "has format version " + buffer.getInt(VERSION_AT) + ", not " + FORMAT_VERSION);
        }
        if (piece.length != describedBytes(buffer)) {
            return refuse(
                    ChunkDoubt.LENGTH,
                    index,
                    "has " + piece.length + " bytes, its header describes " + describedBytes(buffer));
        }
        if (buffer.getInt(CHECKSUM_AT) != checksum(piece)) {
            return refuse(ChunkDoubt.CHECKSUM, index, "has another checksum than its bytes");
        }
        buffer.position(AFTER_CHECKSUM);
        ChunkCodec.Refusal refusal = checkOrigin(buffer, key, index);
        return refusal != null ? refusal : checkPlace(buffer, index, firstUnit, numUnits, payloadBytes);
    }

    private static long describedBytes(ByteBuffer buffer) {
        long tokens = buffer.getInt(INDEX_AT) == 0 ? buffer.getInt(CHUNK_TOKENS_AT) : 0;
        return NUM_BYTES + tokens * Integer.BYTES + buffer.getInt(PAYLOAD_BYTES_AT);
    }

    private ChunkCodec.Refusal checkOrigin(ByteBuffer buffer, ChunkKey key, int index) {
        ChunkKey stored = ChunkKey.read(buffer);
        if (!stored.equals(key)) {
            return refuse(ChunkDoubt.KEY, index, "is of chunk " + stored + ", not " + key);
        }
        if (buffer.getLong() != fingerprintHigh | buffer.getLong() != fingerprintLow) {
            return refuse(ChunkDoubt.FINGERPRINT, index, "was written under another fingerprint");
        }
        KvLayout other =
                new KvLayout(buffer.getInt(), buffer.getInt(), buffer.getInt(), buffer.getInt(), buffer.getInt());
        if (!other.equals(layout)) {
            return refuse(ChunkDoubt.LAYOUT, index, "has " + other + ", not " + layout);
        }
        int code = buffer.getInt();
        if (code != code(format)) {
            return refuse(ChunkDoubt.KV_FORMAT, index, "has number format " + code + ", not " + code(format));
        }
        int tokens = buffer.getInt();
        if (tokens != chunkTokens) {
            return refuse(ChunkDoubt.CHUNK_TOKENS, index, "is of " + tokens + " tokens, not " + chunkTokens);
        }
        return null;
    }

    private ChunkCodec.Refusal checkPlace(ByteBuffer buffer, int index, int firstUnit, int numUnits, int payloadBytes) {
        int storedIndex = buffer.getInt();
        int storedPieces = buffer.getInt();
        int storedFirst = buffer.getInt();
        int storedUnits = buffer.getInt();
        if (storedIndex != index || storedPieces != numPieces || storedFirst != firstUnit || storedUnits != numUnits) {
            return refuse(
                    ChunkDoubt.PIECE_ORDER,
                    index,
                    "is piece " + storedIndex + " of " + storedPieces + " with units " + storedFirst + " + "
                            + storedUnits);
        }
        int storedPayload = buffer.getInt();
        if (storedPayload != payloadBytes) {
            return refuse(ChunkDoubt.LENGTH, index, "has " + storedPayload + " bytes of KV, not " + payloadBytes);
        }
        return null;
    }

    private static ChunkCodec.Refusal refuse(ChunkDoubt doubt, int index, String text) {
        return new ChunkCodec.Refusal(doubt, "piece " + index + " " + text);
    }
}
