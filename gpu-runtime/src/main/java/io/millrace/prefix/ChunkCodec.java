package io.millrace.prefix;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.backend.KvTransfer;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Objects;
import java.util.stream.IntStream;

/**
 * Chunks to and from pieces of at most a megabyte, the size that disks and RocksDB read fastest, cut at unit borders of
 * {@link KvLayout}. Every piece begins with a {@link PieceHeader}; {@link #check} refuses whatever it cannot be sure of.
 *
 * <p>One per engine. {@link #check}, {@link #seal}, taking arrays and giving them back may be called by any thread, {@link #encode} and {@link #decode}, which
 * touch the device, by the engine thread.
 */
public final class ChunkCodec {
    /** Most bytes of a piece, header included. */
    public static final int MAX_PIECE_BYTES = 1 << 20;

    private final KvTransfer kv;
    private final KvFormat format;
    private final int chunkTokens;
    private final int unitBytes;
    private final PieceHeader template;
    private final int[] firstUnits; // [numPieces + 1]
    private final PiecePool pool;

    /**
     * Why a chunk was refused.
     *
     * @param doubt what is counted
     * @param text what was found, for the log
     */
    public record Refusal(ChunkDoubt doubt, String text) {}

    /**
     * A codec.
     *
     * @param kv the device's blocks
     * @param format KV in the pieces
     * @param chunkTokens tokens of a chunk, a multiple of the block size
     * @param fingerprint everything that the bits depend on; chunks of another are refused
     * @throws IllegalArgumentException if a chunk of that many tokens cannot be cut into pieces
     */
    public ChunkCodec(KvTransfer kv, KvFormat format, int chunkTokens, String fingerprint) {
        this.kv = Objects.requireNonNull(kv);
        this.format = Objects.requireNonNull(format);
        this.chunkTokens = chunkTokens;
        KvLayout layout = kv.layout();
        if (chunkTokens < 1 || chunkTokens % layout.blockSize() != 0) {
            throw new IllegalArgumentException("a chunk of " + chunkTokens + " tokens is not a run of whole blocks of "
                    + layout.blockSize() + " tokens; give a multiple");
        }
        this.unitBytes = layout.unitBytes(format);
        this.firstUnits = cut(layout.numUnits(chunkTokens / layout.blockSize()));
        byte[] digest = sha256(fingerprint);
        ByteBuffer hash = ByteBuffer.wrap(digest);
        this.template = new PieceHeader(hash.getLong(), hash.getLong(), layout, format, chunkTokens, numPieces());
        this.pool = new PiecePool(
                IntStream.range(0, numPieces()).map(this::pieceBytes).toArray());
    }

    private static byte[] sha256(String text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java platform has SHA-256", e);
        }
    }

    /** As few pieces as possible, of nearly equal size; the first, which has the tokens too, is no larger than others. */
    private int[] cut(int numUnits) {
        int maxUnits = (MAX_PIECE_BYTES - PieceHeader.NUM_BYTES) / unitBytes;
        int maxFirstUnits = (MAX_PIECE_BYTES - PieceHeader.NUM_BYTES - chunkTokens * Integer.BYTES) / unitBytes;
        if (maxFirstUnits < 1) {
            throw new IllegalArgumentException("a piece of " + MAX_PIECE_BYTES + " bytes cannot hold the ids of "
                    + chunkTokens + " tokens and one unit of KV, " + unitBytes + " bytes; use shorter chunks");
        }
        int numPieces = 1 + (Math.max(0, numUnits - maxFirstUnits) + maxUnits - 1) / maxUnits;
        int[] starts = new int[numPieces + 1];
        int inFirst = Math.min(maxFirstUnits, numUnits / numPieces);
        for (int piece = 1; piece <= numPieces; piece++) {
            long others = (long) (numUnits - inFirst) * (piece - 1);
            starts[piece] = inFirst + (numPieces == 1 ? 0 : (int) (others / (numPieces - 1)));
        }
        return starts;
    }

    /** Pieces of every chunk. */
    public int numPieces() {
        return firstUnits.length - 1;
    }

    /** Bytes of a chunk, headers included. */
    public long chunkBytes() {
        long bytes = 0;
        for (int piece = 0; piece < numPieces(); piece++) {
            bytes += pieceBytes(piece);
        }
        return bytes;
    }

    /** Bytes of a chunk's piece, header included. */
    public int pieceBytes(int piece) {
        return payloadOffset(piece) + numUnits(piece) * unitBytes;
    }

    private int numUnits(int piece) {
        return firstUnits[piece + 1] - firstUnits[piece];
    }

    private int payloadOffset(int piece) {
        return PieceHeader.NUM_BYTES + (piece == 0 ? chunkTokens * Integer.BYTES : 0);
    }

    /**
     * Exports a chunk.
     *
     * @param tokenIds the chunk's tokens are tokenIds[from … from + chunkTokens)
     * @param blocks [chunkTokens / block size] where its KV lies
     * @return pieces yet to be sealed; to be given back by whoever has them last, if that is known
     */
    public byte[][] encode(ChunkKey key, int[] tokenIds, int from, int[] blocks) {
        byte[][] pieces = pool.take();
        for (int i = 0; i < pieces.length; i++) {
            byte[] piece = pieces[i];
            template.write(piece, key, i, firstUnits[i], numUnits(i), numUnits(i) * unitBytes);
            if (i == 0) {
                ByteBuffer.wrap(piece, PieceHeader.NUM_BYTES, chunkTokens * Integer.BYTES)
                        .asIntBuffer()
                        .put(tokenIds, from, chunkTokens);
            }
            kv.exportKv(blocks, numBlocks(), format, firstUnits[i], numUnits(i), piece, payloadOffset(i));
        }
        return pieces;
    }

    /** Arrays of such lengths to read a stored chunk into, with anything in them. */
    byte[][] arraysFor(int[] lengths) {
        return pool.take(lengths);
    }

    /** Takes back a chunk's pieces, to be used again; nobody else may have them any more. */
    void giveBack(byte[][] pieces) {
        pool.giveBack(pieces);
    }

    private int numBlocks() {
        return chunkTokens / kv.layout().blockSize();
    }

    /** Writes the checksum into a piece; the last thing done before it is stored. */
    public static void seal(byte[] piece) {
        PieceHeader.seal(piece);
    }

    /**
     * Looks for a doubt about a loaded chunk. Never throws for what the bytes say.
     *
     * @param tokenIds the chunk's tokens ought to be tokenIds[from … from + chunkTokens)
     * @return null if there is none
     */
    public Refusal check(ChunkKey key, int[] tokenIds, int from, byte[][] pieces) {
        if (pieces.length != numPieces()) {
            return new Refusal(ChunkDoubt.NUM_PIECES, pieces.length + " pieces, a chunk has " + numPieces());
        }
        for (int i = 0; i < pieces.length; i++) {
            if (pieces[i] == null) {
                return new Refusal(ChunkDoubt.NUM_PIECES, "piece " + i + " of " + numPieces() + " is not there");
            }
            Refusal refusal = template.check(pieces[i], key, i, firstUnits[i], numUnits(i), numUnits(i) * unitBytes);
            if (refusal != null) {
                return refusal;
            }
        }
        return checkTokens(pieces[0], tokenIds, from);
    }

    private Refusal checkTokens(byte[] piece, int[] tokenIds, int from) {
        if (from < 0 || from + chunkTokens > tokenIds.length) {
            return new Refusal(ChunkDoubt.TOKENS, "the sequence has no whole chunk at token " + from);
        }
        ByteBuffer stored = ByteBuffer.wrap(piece);
        for (int t = 0; t < chunkTokens; t++) {
            int id = stored.getInt(PieceHeader.NUM_BYTES + t * Integer.BYTES);
            if (id != tokenIds[from + t]) {
                return new Refusal(
                        ChunkDoubt.TOKENS,
                        "token " + t + " of the chunk is " + tokenIds[from + t] + ", stored is KV of " + id);
            }
        }
        return null;
    }

    /** Imports a chunk about which {@link #check} had no doubt. */
    public void decode(byte[][] pieces, int[] blocks) {
        for (int i = 0; i < pieces.length; i++) {
            kv.importKv(blocks, numBlocks(), format, firstUnits[i], numUnits(i), pieces[i], payloadOffset(i));
        }
    }
}
