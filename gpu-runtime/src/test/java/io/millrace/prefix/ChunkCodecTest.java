package io.millrace.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class ChunkCodecTest {
    /** smollm2-135m's: a chunk of 128 tokens is 2.8 MiB. */
    private static final KvLayout LAYOUT = new KvLayout(30, 3, 64, 16, 2);

    private static final int CHUNK_TOKENS = 128;
    private static final String FINGERPRINT = "model a/cpu/kernels-v1";
    private static final ChunkKey KEY = new ChunkKey(0x0123456789abcdefL, -2);

    private final SplittableRandom random = new SplittableRandom(7);
    private final int[] tokens = random.ints(3 * CHUNK_TOKENS, 0, 49152).toArray();
    private final int[] blocks = {4, 9, 1, 0, 13, 14, 15, 2};
    private final int[] otherBlocks = {30, 31, 32, 33, 37, 36, 35, 34};
    private final ArrayKv kv = new ArrayKv(LAYOUT);

    private ChunkCodec codec(KvFormat format) {
        return new ChunkCodec(kv, format, CHUNK_TOKENS, FINGERPRINT);
    }

    private byte[][] encode(ChunkCodec codec, KvFormat format) {
        kv.fill(blocks, format, random);
        byte[][] pieces = codec.encode(KEY, tokens, CHUNK_TOKENS, blocks);
        for (byte[] piece : pieces) {
            ChunkCodec.seal(piece);
        }
        return pieces;
    }

    private byte[][] encode() {
        return encode(codec(KvFormat.AS_COMPUTED), KvFormat.AS_COMPUTED);
    }

    private ChunkDoubt doubt(ChunkCodec codec, byte[][] pieces) {
        ChunkCodec.Refusal refusal = codec.check(KEY, tokens, CHUNK_TOKENS, pieces);
        return refusal == null ? null : refusal.doubt();
    }

    private ChunkDoubt doubt(byte[][] pieces) {
        return doubt(codec(KvFormat.AS_COMPUTED), pieces);
    }

    @ParameterizedTest
    @EnumSource
    void whatWasEncodedComesBack(KvFormat format) {
        ChunkCodec codec = codec(format);
        byte[][] pieces = encode(codec, format);
        assertNull(codec.check(KEY, tokens, CHUNK_TOKENS, pieces));
        codec.decode(pieces, otherBlocks);
        for (int unit = 0; unit < LAYOUT.numUnits(blocks.length); unit++) {
            assertArrayEquals(kv.unit(blocks, unit), kv.unit(otherBlocks, unit));
        }
    }

    @ParameterizedTest
    @EnumSource
    void whatWasInArraysBeforeLeavesNoTrace(KvFormat format) {
        ChunkCodec codec = codec(format);
        byte[][] pieces = encode(codec, format);
        byte[][] expected = Arrays.stream(pieces).map(piece -> piece.clone()).toArray(byte[][]::new);
        for (byte[] piece : pieces) {
            random.nextBytes(piece);
        }
        codec.giveBack(pieces);
        byte[][] again = codec.encode(KEY, tokens, CHUNK_TOKENS, blocks);
        assertSame(pieces, again);
        for (int i = 0; i < again.length; i++) {
            ChunkCodec.seal(again[i]);
            assertArrayEquals(expected[i], again[i]);
        }
    }

    @ParameterizedTest
    @EnumSource
    void piecesAreFewAndOfNearlyEqualSize(KvFormat format) {
        ChunkCodec codec = codec(format);
        byte[][] pieces = encode(codec, format);
        long total = Arrays.stream(pieces).mapToLong(piece -> piece.length).sum();
        assertEquals(codec.chunkBytes(), total);
        assertEquals(
                LAYOUT.bytes(blocks.length, format)
                        + (long) codec.numPieces() * PieceHeader.NUM_BYTES
                        + CHUNK_TOKENS * Integer.BYTES,
                total);
        int least = Arrays.stream(pieces).mapToInt(piece -> piece.length).min().orElseThrow();
        int most = Arrays.stream(pieces).mapToInt(piece -> piece.length).max().orElseThrow();
        assertTrue(most <= ChunkCodec.MAX_PIECE_BYTES && most - least < 3 * LAYOUT.unitBytes(format));
        assertEquals((total + ChunkCodec.MAX_PIECE_BYTES - 1) / ChunkCodec.MAX_PIECE_BYTES, pieces.length);
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4})
    void anyShapeIsCutAtUnitBorders(long seed) {
        SplittableRandom shapes = new SplittableRandom(seed);
        for (int i = 0; i < 200; i++) {
            KvLayout layout = new KvLayout(
                    shapes.nextInt(1, 81), shapes.nextInt(1, 33), shapes.nextInt(1, 257), 16, 2 * shapes.nextInt(1, 3));
            int chunkTokens = 16 * shapes.nextInt(1, 65);
            KvFormat format = KvFormat.values()[shapes.nextInt(3)];
            ChunkCodec codec = new ChunkCodec(new ArrayKv(layout), format, chunkTokens, FINGERPRINT);
            String shape = layout + " " + chunkTokens + " " + format + " of seed " + seed;
            for (int piece = 0; piece < codec.numPieces(); piece++) {
                assertTrue(codec.pieceBytes(piece) <= ChunkCodec.MAX_PIECE_BYTES, shape);
                assertTrue(codec.pieceBytes(piece) >= layout.unitBytes(format), shape);
            }
            assertEquals(
                    layout.bytes(chunkTokens / 16, format)
                            + (long) codec.numPieces() * PieceHeader.NUM_BYTES
                            + chunkTokens * Integer.BYTES,
                    codec.chunkBytes(),
                    shape);
        }
    }

    @Test
    void everyByteOfEveryHeaderCounts() {
        ChunkCodec codec = codec(KvFormat.AS_COMPUTED);
        byte[][] pieces = encode();
        for (int i = 0; i < pieces.length; i++) {
            int end = PieceHeader.NUM_BYTES + (i == 0 ? CHUNK_TOKENS * Integer.BYTES : 0);
            byte[] right = Arrays.copyOf(pieces[i], end);
            for (int at = 0; at < end; at++) {
                pieces[i][at] ^= (byte) (1 << random.nextInt(8));
                assertNotNull(doubt(codec, pieces), "byte " + at + " of piece " + i);
                ChunkCodec.seal(pieces[i]);
                boolean isChecksum = at >= 8 && at < 12;
                assertEquals(isChecksum, doubt(codec, pieces) == null, "resealed, byte " + at + " of piece " + i);
                System.arraycopy(right, 0, pieces[i], 0, end);
            }
        }
        assertNull(doubt(codec, pieces));
    }

    @ParameterizedTest
    @ValueSource(longs = {11, 12, 13})
    void randomDamageIsFound(long seed) {
        SplittableRandom damage = new SplittableRandom(seed);
        ChunkCodec codec = codec(KvFormat.INT4);
        byte[][] pieces = encode(codec, KvFormat.INT4);
        for (int i = 0; i < 300; i++) {
            byte[][] bad = pieces.clone();
            int p = damage.nextInt(bad.length);
            bad[p] = damaged(pieces[p], damage);
            if (!Arrays.equals(bad[p], pieces[p])) {
                assertNotNull(doubt(codec, bad), "damage " + i + " of seed " + seed);
            }
        }
    }

    private static byte[] damaged(byte[] piece, SplittableRandom random) {
        byte[] bad = piece.clone();
        int at = random.nextInt(bad.length);
        switch (random.nextInt(5)) {
            case 0 -> bad[at] ^= (byte) (1 << random.nextInt(8));
            case 1 -> Arrays.fill(bad, at, Math.min(bad.length, at + 4096), (byte) 0);
            case 2 -> {
                return Arrays.copyOf(bad, at);
            }
            case 3 -> {
                return Arrays.copyOf(bad, bad.length + 1 + random.nextInt(8));
            }
            default -> random.nextBytes(bad);
        }
        return bad;
    }

    @Test
    void doubtsHaveTheirNames() {
        byte[][] pieces = encode();
        assertEquals(ChunkDoubt.NUM_PIECES, doubt(Arrays.copyOf(pieces, 2)));
        assertEquals(ChunkDoubt.NUM_PIECES, doubt(Arrays.copyOf(pieces, 4)));
        assertEquals(ChunkDoubt.NUM_PIECES, doubt(new byte[][] {pieces[0], null, pieces[2]}));
        assertEquals(ChunkDoubt.PIECE_ORDER, doubt(new byte[][] {pieces[0], pieces[2], pieces[1]}));
        assertEquals(ChunkDoubt.LENGTH, doubt(new byte[][] {pieces[0], pieces[1], new byte[0]}));
        assertEquals(ChunkDoubt.LENGTH, doubt(new byte[][] {pieces[0], pieces[1], Arrays.copyOf(pieces[2], 1000)}));
        pieces[1][5000] ^= 64;
        assertEquals(ChunkDoubt.CHECKSUM, doubt(pieces));
        pieces[1][5000] ^= 64;
        pieces[2][0] = 0;
        assertEquals(ChunkDoubt.MAGIC, doubt(pieces));
        ByteBuffer.wrap(pieces[2])
                .putInt(0, ByteBuffer.wrap(pieces[1]).getInt(0))
                .putInt(4, 2);
        ChunkCodec.seal(pieces[2]);
        assertEquals(ChunkDoubt.FORMAT_VERSION, doubt(pieces));
    }

    @Test
    void chunksOfAnotherOriginAreRefused() {
        byte[][] pieces = encode();
        ChunkCodec right = codec(KvFormat.AS_COMPUTED);
        assertEquals(
                ChunkDoubt.KEY,
                right.check(new ChunkKey(1, 2), tokens, CHUNK_TOKENS, pieces).doubt());
        assertEquals(
                ChunkDoubt.FINGERPRINT,
                doubt(new ChunkCodec(kv, KvFormat.AS_COMPUTED, CHUNK_TOKENS, "model b/cpu/kernels-v1"), pieces));
        // Same sizes, another shape.
        ArrayKv turned = new ArrayKv(new KvLayout(30, 3, 32, 16, 4));
        assertEquals(
                ChunkDoubt.LAYOUT,
                doubt(new ChunkCodec(turned, KvFormat.AS_COMPUTED, CHUNK_TOKENS, FINGERPRINT), pieces));
        ChunkCodec longer = new ChunkCodec(kv, KvFormat.AS_COMPUTED, CHUNK_TOKENS + 16, FINGERPRINT);
        assertEquals(ChunkDoubt.NUM_PIECES, doubt(longer, pieces));
        assertEquals(ChunkDoubt.CHUNK_TOKENS, doubt(longer, Arrays.copyOf(pieces, longer.numPieces())));
        assertEquals(
                ChunkDoubt.TOKENS,
                right.check(KEY, tokens, CHUNK_TOKENS - 1, pieces).doubt());
        assertEquals(
                ChunkDoubt.TOKENS,
                right.check(KEY, tokens, 2 * CHUNK_TOKENS + 1, pieces).doubt());
        ArrayKv small = new ArrayKv(new KvLayout(1, 1, 64, 16, 2));
        ChunkCodec eight = new ChunkCodec(small, KvFormat.INT8, CHUNK_TOKENS, FINGERPRINT);
        small.fill(blocks, KvFormat.INT8, random);
        byte[][] lossy = eight.encode(KEY, tokens, CHUNK_TOKENS, blocks);
        ChunkCodec.seal(lossy[0]);
        assertEquals(
                ChunkDoubt.KV_FORMAT,
                doubt(new ChunkCodec(small, KvFormat.AS_COMPUTED, CHUNK_TOKENS, FINGERPRINT), lossy));
    }

    @Test
    void anUnsealedChunkIsRefused() {
        kv.fill(blocks, KvFormat.AS_COMPUTED, random);
        byte[][] pieces = codec(KvFormat.AS_COMPUTED).encode(KEY, tokens, CHUNK_TOKENS, blocks);
        assertEquals(ChunkDoubt.CHECKSUM, doubt(pieces));
    }

    @Test
    void lengthsThatCannotBeCutAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> new ChunkCodec(kv, KvFormat.AS_COMPUTED, 100, FINGERPRINT));
        assertThrows(
                IllegalArgumentException.class, () -> new ChunkCodec(kv, KvFormat.AS_COMPUTED, 1 << 18, FINGERPRINT));
    }
}
