package io.millrace.prefix;

import java.util.List;

/**
 * Keeps chunks of prefix KV below the block pool, on disk. The engine thread calls; a call never waits for the disk and never
 * throws for its sake. Answers go to {@link Answers} from whatever thread did the work; from within an answer that thread may
 * call {@link #load}, so that the disk goes on while the engine computes. A store may forget anything at any time and may
 * answer "not there" to anything: a doubt is a miss. What it took but has not written yet it may find and load, too.
 *
 * <p>The affinity key is the routing key of the request: a store in keyed state keeps chunks under it, another may ignore it.
 */
public interface PrefixStore {

    /** Where answers go. Any thread; never blocks. Each ticket of find and load is answered at most once. */
    interface Answers {
        /** The first numChunks of the chain are stored (their manifests are; a load may still fail). */
        void found(long ticket, int numChunks);

        /**
         * A chunk's sealed pieces in order, as they were stored, unchecked. They belong to the receiver from now on, which may use
         * the arrays for anything afterwards: they are the answer's own, or of {@link #arraysFor}.
         */
        void loaded(long ticket, byte[][] pieces);

        /**
         * There is no such chunk (any more), or reading it failed.
         *
         * @param reason NOT_STORED, EVICTED, READ_FAILED or CLOSED; only failures speak against the store
         * @param text the same for people
         */
        void missed(long ticket, TierMiss reason, String text);

        /**
         * Arrays to read a chunk into, with anything in them: a store need not use them. They go back by {@link #loaded}, or by
         * {@link #gaveBack} if nothing came of the load.
         *
         * @param pieceBytes length of each of the chunk's pieces
         */
        default byte[][] arraysFor(int[] pieceBytes) {
            byte[][] pieces = new byte[pieceBytes.length][];
            for (int i = 0; i < pieces.length; i++) {
                pieces[i] = new byte[pieceBytes[i]];
            }
            return pieces;
        }

        /**
         * Arrays are with the store no more, and the receiver may use them again: of a chunk that it was to keep and has copied
         * or dropped, or of {@link #arraysFor}. A store that keeps the arrays themselves never says so.
         */
        default void gaveBack(byte[][] pieces) {}
    }

    /** Called once, before any other call. */
    void open(Answers answers);

    /** Asks how many leading chunks of a chain are stored. */
    void find(long ticket, long affinityKey, List<ChunkKey> chain);

    /** Asks for a chunk. At most {@link #maxLoadsInFlight} are asked for at a time; they are read in order. */
    void load(long ticket, long affinityKey, ChunkKey key);

    /** The answer is not needed any more; it may come nevertheless. */
    void cancel(long ticket);

    /**
     * Keeps a chunk, some time later and off the caller's path. The pieces belong to the store, which seals them (writes their
     * checksums), until it gives them back, at most once, by {@link Answers#gaveBack}. A chunk that finds the write buffer full is
     * dropped and counted.
     *
     * @param chain the keys from the first chunk to this one
     * @return false if it was dropped: then the pieces are still the caller's
     */
    boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces);

    /** Loads that keep the disk busy: one being read, and what the store wants queued behind it. */
    int maxLoadsInFlight();

    /** Counters; any thread. */
    StoreStats stats();

    /** Stops its threads, drops what is not written yet. Any thread, idempotent. */
    void close();
}
