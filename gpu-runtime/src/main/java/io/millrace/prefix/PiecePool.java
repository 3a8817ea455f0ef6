package io.millrace.prefix;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;

/**
 * Arrays for the pieces of chunks, used again and again: what a fresh array of a megabyte costs, pages to map, to clear and
 * to collect, is several times what copying KV into it costs. Chunks that are written and chunks that are read share them.
 * Arrays come as they were left. Any thread.
 */
final class PiecePool {
    /** What may lie here unused. */
    static final long MAX_IDLE_BYTES = 64L << 20;

    private final int[] pieceBytes;
    private final int maxIdle;
    private final Deque<byte[][]> idle = new ArrayDeque<>(); // the last one given back, which caches may hold, first

    /** @param pieceBytes length of each of a chunk's pieces */
    PiecePool(int[] pieceBytes) {
        this.pieceBytes = pieceBytes;
        long chunkBytes = 0;
        for (int bytes : pieceBytes) {
            chunkBytes += bytes;
        }
        maxIdle = (int) Math.max(1, MAX_IDLE_BYTES / chunkBytes);
    }

    /** A chunk's pieces with anything in them. */
    byte[][] take() {
        return take(pieceBytes);
    }

    /** Arrays of such lengths with anything in them; of other lengths than a chunk's always fresh. */
    byte[][] take(int[] lengths) {
        if (Arrays.equals(lengths, pieceBytes)) {
            synchronized (this) {
                if (!idle.isEmpty()) {
                    return idle.pop();
                }
            }
        }
        byte[][] pieces = new byte[lengths.length][];
        for (int i = 0; i < pieces.length; i++) {
            pieces[i] = new byte[lengths[i]];
        }
        return pieces;
    }

    /** Takes back a chunk's pieces that nobody else has any more; lets go of what has another form, or is too much. */
    synchronized void giveBack(byte[][] pieces) {
        if (idle.size() < maxIdle && fits(pieces)) {
            idle.push(pieces);
        }
    }

    private boolean fits(byte[][] pieces) {
        if (pieces.length != pieceBytes.length) {
            return false;
        }
        for (int i = 0; i < pieces.length; i++) {
            if (pieces[i] == null || pieces[i].length != pieceBytes[i]) {
                return false;
            }
        }
        return true;
    }
}
