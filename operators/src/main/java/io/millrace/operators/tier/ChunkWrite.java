package io.millrace.operators.tier;

import io.millrace.operators.tier.ChunkIndex.Place;
import io.millrace.prefix.ChunkKey;
import java.util.List;

/** A chunk on its way into state. Made by the engine thread, then the task thread's. */
final class ChunkWrite {
    final Place place;
    final byte[][] pieces;
    final long numBytes;
    final long generation;
    final int position;
    final ChunkKey parentKey; // null for the first of a chain
    int numWritten;

    /** @param chain the keys from the first chunk to this one */
    ChunkWrite(long affinityKey, List<ChunkKey> chain, byte[][] pieces, long generation) {
        this.position = chain.size() - 1;
        this.place = new Place(affinityKey, chain.get(position));
        this.parentKey = position == 0 ? null : chain.get(position - 1);
        this.pieces = pieces;
        this.generation = generation;
        long bytes = 0;
        for (byte[] piece : pieces) {
            bytes += piece.length;
        }
        this.numBytes = bytes;
    }
}
