package io.millrace.prefix;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;

/**
 * A prefix that is being looked for and loaded: which of its chunks are stored, which have come, which never will. Written by
 * the engine thread alone, but for what {@link ChunkLoads} keeps in it under its own lock.
 */
final class PrefixLoad {
    /** Where a chunk is, as far as the engine thread has heard. */
    enum ChunkState {
        /** Not in the store, or not any more, or refused: to be computed. */
        MISSING,
        /** In the store: may be asked for, or is on its way. */
        STORED,
        /** Checked, in the buffer. */
        ARRIVED,
        /** In the sequence's blocks. */
        RESIDENT
    }

    private final long affinityKey;
    private final List<ChunkKey> keys;
    private final int[] tokenIds;
    private final int chunkTokens;
    private final ChunkState[] states;
    private final byte[][][] pieces; // of chunks that have arrived
    private int numStored = -1;
    private int numCached;
    private int numWaitedFor; // stored or arrived
    private int numArrived;

    // Kept by ChunkLoads under its lock.
    final BitSet unanswered = new BitSet(); // asked for, or answered and not yet handed to the engine thread
    long findTicket = -1;
    boolean closed;

    /**
     * A load that has found nothing yet.
     *
     * @param keys the chain of the prefix
     * @param tokenIds at least the chain's tokens, which never change; not copied
     */
    PrefixLoad(long affinityKey, List<ChunkKey> keys, int[] tokenIds, int chunkTokens) {
        this.affinityKey = affinityKey;
        this.keys = keys;
        this.tokenIds = tokenIds;
        this.chunkTokens = chunkTokens;
        states = new ChunkState[keys.size()];
        Arrays.fill(states, ChunkState.MISSING);
        pieces = new byte[keys.size()][][];
    }

    long affinityKey() {
        return affinityKey;
    }

    List<ChunkKey> keys() {
        return keys;
    }

    int[] tokenIds() {
        return tokenIds;
    }

    int chunkTokens() {
        return chunkTokens;
    }

    /** Whether the store has not said yet what it has. */
    boolean isFinding() {
        return numStored < 0;
    }

    /** Chunks that were in memory when the load began. */
    int numCached() {
        return numCached;
    }

    void setNumCached(int numChunks) {
        numCached = numChunks;
    }

    /** Chunks of the longest stored prefix. */
    int numStored() {
        return Math.max(0, numStored);
    }

    /** Tokens of the longest stored prefix. */
    int endOfStored() {
        return numStored() * chunkTokens;
    }

    /** Takes the store's answer: so many leading chunks are there. */
    void found(int numChunks) {
        numStored = Math.max(0, Math.min(numChunks, states.length));
        for (int i = 0; i < numStored; i++) {
            set(i, ChunkState.STORED);
        }
    }

    ChunkState state(int chunk) {
        return states[chunk];
    }

    void arrived(int chunk, byte[][] chunkPieces) {
        set(chunk, ChunkState.ARRIVED);
        pieces[chunk] = chunkPieces;
        numArrived++;
    }

    /** Takes the pieces of a chunk that has arrived; where it is afterwards is for the caller to say. */
    byte[][] take(int chunk, ChunkState to) {
        byte[][] taken = pieces[chunk];
        pieces[chunk] = null;
        numArrived--;
        set(chunk, to);
        return taken;
    }

    /** Takes the pieces of all chunks that have arrived; they count as missing then. */
    List<byte[][]> takeAllArrived() {
        List<byte[][]> taken = new ArrayList<>();
        for (int chunk = 0; chunk < states.length && numArrived > 0; chunk++) {
            if (states[chunk] == ChunkState.ARRIVED) {
                taken.add(take(chunk, ChunkState.MISSING));
            }
        }
        return taken;
    }

    void miss(int chunk) {
        set(chunk, ChunkState.MISSING);
    }

    /** Chunks in the buffer. */
    int numArrived() {
        return numArrived;
    }

    /** Whether no chunk is left that may come or be imported. */
    boolean isOver() {
        return !isFinding() && numWaitedFor == 0;
    }

    private void set(int chunk, ChunkState to) {
        numWaitedFor += (isWaitedFor(to) ? 1 : 0) - (isWaitedFor(states[chunk]) ? 1 : 0);
        states[chunk] = to;
    }

    private static boolean isWaitedFor(ChunkState state) {
        return state == ChunkState.STORED || state == ChunkState.ARRIVED;
    }
}
