package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import java.io.IOException;

/** Pieces by chunk and number, on disk. Reads and removals by any thread, the rest by one; nothing after close. */
interface PieceDatabase extends AutoCloseable {
    /** Reads a piece; false if it is not there or has another length than the array, in which there is anything then. */
    boolean read(ChunkKey key, int piece, byte[] into) throws IOException;

    void write(ChunkKey key, int piece, byte[] bytes) throws IOException;

    void remove(ChunkKey key, int piece) throws IOException;

    /** Gives back the room of removed pieces; takes a while. */
    void reclaim() throws IOException;

    /** Bytes of its files. */
    long numFileBytes() throws IOException;

    /** Whether nobody has deleted its files. */
    boolean isThere();

    /** Closes and deletes it. */
    @Override
    void close();
}
