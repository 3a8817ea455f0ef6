package io.millrace.operators.tier;

import io.millrace.operators.tier.ChunkIndex.Chunk;
import io.millrace.operators.tier.ChunkIndex.Place;
import io.millrace.prefix.ChunkCodec;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.TierMiss;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The chunks in a process's database, the index of them in memory, and the room they take. Chains lose their tails first, the
 * least recently used chain before others. A chunk that cannot be read is forgotten; when writing fails, or reading fails
 * again and again, everything is: the database is closed and its files are deleted, so that a full disk is not full for its
 * sake, and every later question is answered with a miss. Reads may be made by several threads, the rest by one.
 */
final class DiskChunks {
    private static final Logger LOG = LoggerFactory.getLogger(DiskChunks.class);

    /** Reads that fail in a row before the disk is not trusted any more. */
    static final int MAX_READ_FAILURES = 3;

    /** Of the capacity, for values: the rest is for what was removed and whose room is not yet given back. */
    private static final double LIVE_SHARE = 0.75;

    /** Of the capacity: when so much was removed its room is worth the work of getting it back. */
    private static final int RECLAIMS_PER_CAPACITY = 16;

    private static final int MAX_RECLAIMS_IN_A_ROW = 8;
    private static final long CLOSE_WAIT_SECONDS = 10;

    private final PieceDatabase database;
    private final String where;
    private final long capacityBytes;
    private final long ttlMillis;
    private final LongSupplier millisClock;
    private final ReentrantReadWriteLock use = new ReentrantReadWriteLock(); // write: to close
    private final ChunkIndex index = new ChunkIndex(); // guarded by itself, as is pieceBytes
    private final Map<ChunkKey, int[]> pieceBytes = new HashMap<>();
    private boolean isClosed; // guarded by use
    private long numRemovedBytes; // since room was last given back; guarded by index
    private boolean cleanedUp;
    private int numReadFailures; // in a row; guarded by index
    private long numEvicted; // guarded by index
    private long numFailures; // guarded by index
    private volatile String suspension;

    /** Where arrays to read into come from. */
    interface Arrays {
        /** Of these lengths, with anything in them. */
        byte[][] arraysFor(int[] pieceBytes);

        /** Takes back what nothing was read into. */
        void giveBack(byte[][] pieces);
    }

    /** A chunk's pieces, or why there are none. */
    record Reading(byte[][] pieces, TierMiss miss, String missReason) {}

    /**
     * @param where the directory, for messages
     * @param ttlMillis chunks unused for longer are evicted; 0 for never
     */
    DiskChunks(PieceDatabase database, String where, long capacityBytes, long ttlMillis, LongSupplier millisClock) {
        this.database = database;
        this.where = where;
        this.capacityBytes = capacityBytes;
        this.ttlMillis = ttlMillis;
        this.millisClock = millisClock;
    }

    /** Why it keeps nothing any more; null while it does. Any thread. */
    String suspension() {
        return suspension;
    }

    void setGeneration(long generation) {
        synchronized (index) {
            index.setGeneration(generation);
        }
    }

    int numLeading(List<ChunkKey> chain) {
        synchronized (index) {
            int count = index.numLeading(0, chain);
            if (count > 0) {
                index.touch(index.get(0, chain.get(count - 1)), millisClock.getAsLong());
            }
            return count;
        }
    }

    boolean contains(ChunkKey key) {
        synchronized (index) {
            return index.get(0, key) != null;
        }
    }

    long numChunks() {
        synchronized (index) {
            return index.numChunks();
        }
    }

    long numBytes() {
        synchronized (index) {
            return index.numBytes();
        }
    }

    long numEvicted() {
        synchronized (index) {
            return numEvicted;
        }
    }

    long numFailures() {
        synchronized (index) {
            return numFailures;
        }
    }

    /** Reads a chunk into arrays that the answer holds, or that are given back. Any thread; never throws for the disk's sake. */
    Reading read(ChunkKey key, Arrays arrays) {
        int[] lengths;
        synchronized (index) {
            lengths = pieceBytes.get(key);
        }
        use.readLock().lock();
        try {
            if (suspension != null || isClosed) {
                return new Reading(null, TierMiss.CLOSED, suspension == null ? "the store is closed" : suspension);
            }
            if (lengths == null) {
                return new Reading(null, TierMiss.NOT_STORED, "it is not stored");
            }
            if (!database.isThere()) {
                suspendForDeletion();
                return new Reading(null, TierMiss.READ_FAILED, suspension);
            }
            return readPieces(key, lengths, arrays);
        } catch (IOException | RuntimeException e) {
            return readFailed(key, e);
        } finally {
            use.readLock().unlock();
        }
    }

    private Reading readPieces(ChunkKey key, int[] lengths, Arrays arrays) throws IOException {
        byte[][] pieces = arrays.arraysFor(lengths);
        boolean isRead = false;
        try {
            for (int i = 0; i < pieces.length; i++) {
                if (!database.read(key, i, pieces[i])) {
                    throw new IOException("piece " + i + " of " + lengths.length + " is not there, or not whole");
                }
            }
            isRead = true;
        } finally {
            if (!isRead) {
                arrays.giveBack(pieces);
            }
        }
        synchronized (index) {
            numReadFailures = 0;
            Chunk chunk = index.get(0, key);
            if (chunk != null) {
                index.touch(chunk, millisClock.getAsLong());
            }
        }
        return new Reading(pieces, null, null);
    }

    private Reading readFailed(ChunkKey key, Exception failure) {
        boolean again;
        List<Chunk> removed;
        synchronized (index) {
            Chunk chunk = index.get(0, key);
            if (chunk == null) {
                return new Reading(null, TierMiss.EVICTED, "it was evicted while it was read");
            }
            removed = index.removeTree(chunk);
            removed.forEach(gone -> pieceBytes.remove(gone.place.key()));
            numFailures++;
            again = ++numReadFailures >= MAX_READ_FAILURES;
        }
        try {
            for (Chunk gone : removed) {
                removePieces(gone.place.key(), gone.numPieces, gone.numBytes);
            }
        } catch (IOException | RuntimeException e) {
            failure.addSuppressed(e);
        }
        if (again) {
            suspend(
                    MAX_READ_FAILURES + " reads in a row failed, the last with: " + text(failure),
                    "look at the disk and the kernel's log");
        }
        return new Reading(null, TierMiss.READ_FAILED, "reading it failed: " + text(failure));
    }

    /** Writes a chunk and makes room for it; false if it is not kept. Never throws for the disk's sake. */
    boolean write(ChunkWrite write) {
        if (suspension != null) {
            return false;
        }
        try {
            if (!database.isThere()) {
                suspendForDeletion();
                return false;
            }
            Chunk parent = null;
            synchronized (index) {
                if (index.get(0, write.place.key()) != null) {
                    return true;
                }
                parent = write.parentKey == null ? null : index.get(0, write.parentKey);
            }
            if (write.parentKey != null && parent == null || !makeRoom(write.numBytes, parent)) {
                return false;
            }
            int[] lengths = new int[write.pieces.length];
            for (int i = 0; i < lengths.length; i++) {
                ChunkCodec.seal(write.pieces[i]);
                database.write(write.place.key(), i, write.pieces[i]);
                lengths[i] = write.pieces[i].length;
            }
            if (note(write, lengths)) {
                return true;
            }
            removePieces(write.place.key(), lengths.length, write.numBytes);
            return false;
        } catch (IOException | RuntimeException e) {
            writeFailed(e);
            return false;
        }
    }

    private boolean note(ChunkWrite write, int[] lengths) {
        synchronized (index) {
            Chunk parent = write.parentKey == null ? null : index.get(0, write.parentKey);
            if (suspension != null || write.parentKey != null && parent == null) {
                return false; // a failed read has removed it meanwhile
            }
            Place place = write.place;
            index.add(place, parent, lengths.length, write.numBytes, write.generation, millisClock.getAsLong());
            pieceBytes.put(place.key(), lengths);
            return true;
        }
    }

    /** Evicts until so many bytes fit; false if they never will. */
    private boolean makeRoom(long numBytes, Chunk kept) throws IOException {
        long limit = (long) (capacityBytes * LIVE_SHARE);
        while (numBytes() + numBytes > limit) {
            if (!evict(kept, Long.MAX_VALUE)) {
                return false;
            }
        }
        reclaimIfDue();
        return true;
    }

    /** Evicts what has become too old. */
    void evictUnused() {
        if (suspension != null || ttlMillis == 0) {
            return;
        }
        try {
            boolean more = true;
            while (more) {
                more = evict(null, millisClock.getAsLong() - ttlMillis);
            }
            reclaimIfDue();
        } catch (IOException | RuntimeException e) {
            writeFailed(e);
        }
    }

    private boolean evict(Chunk kept, long usedBefore) throws IOException {
        Chunk chunk;
        synchronized (index) {
            chunk = usedBefore == Long.MAX_VALUE ? index.nextToEvict(kept) : index.lastUsedBefore(usedBefore);
            if (chunk == null) {
                return false;
            }
            index.removeTree(chunk);
            pieceBytes.remove(chunk.place.key());
            numEvicted++;
        }
        removePieces(chunk.place.key(), chunk.numPieces, chunk.numBytes);
        return true;
    }

    private void removePieces(ChunkKey key, int numPieces, long numBytes) throws IOException {
        for (int piece = 0; piece < numPieces; piece++) {
            database.remove(key, piece);
        }
        synchronized (index) {
            numRemovedBytes += numBytes;
        }
    }

    private void reclaimIfDue() throws IOException {
        synchronized (index) {
            if (numRemovedBytes < capacityBytes / RECLAIMS_PER_CAPACITY) {
                return;
            }
            numRemovedBytes = 0;
        }
        database.reclaim();
        for (int i = 0; i < MAX_RECLAIMS_IN_A_ROW && database.numFileBytes() > capacityBytes; i++) {
            long target = numBytes() - capacityBytes / RECLAIMS_PER_CAPACITY;
            boolean isLeft = true;
            while (isLeft && numBytes() > target) {
                isLeft = evict(null, Long.MAX_VALUE);
            }
            database.reclaim();
        }
    }

    private void writeFailed(Exception failure) {
        synchronized (index) {
            numFailures++;
        }
        if (!database.isThere()) {
            suspendForDeletion();
            return;
        }
        suspend(
                "writing failed: " + text(failure),
                "make room on its file system, lower --tier-capacity-bytes, or choose another --tier-directory");
    }

    private static String text(Exception failure) {
        return failure instanceof IOException && failure.getMessage() != null
                ? failure.getMessage()
                : failure.toString();
    }

    private void suspendForDeletion() {
        suspend(
                "its directory was deleted",
                "keep it from whatever cleans up there, or choose another --tier-directory");
    }

    private void suspend(String reason, String remedy) {
        synchronized (index) {
            if (suspension != null) {
                return;
            }
            suspension = "the store is suspended: " + reason;
        }
        LOG.warn(
                "The prefix store under {} is suspended, and its files are deleted: {}. Prefixes are computed instead, outputs"
                        + " stay the same; this is said once. Remedy: {}; then restart the job.",
                where,
                reason,
                remedy);
    }

    /** Gives up the database if it was suspended; to be called now and then. */
    void cleanUp() {
        if (suspension != null && !cleanedUp) {
            cleanedUp = true;
            close();
        }
    }

    /**
     * Closes and deletes the database. If a read hangs, it is left as it is after a while: closing it under a reader would end
     * the process.
     */
    void close() {
        try {
            if (!use.writeLock().tryLock(CLOSE_WAIT_SECONDS, TimeUnit.SECONDS)) {
                LOG.warn(
                        "A read from {} hangs; the database stays open until the process ends, and its files until the next"
                                + " one starts.",
                        where);
                return;
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return;
        }
        try {
            if (!isClosed) {
                isClosed = true;
                database.close();
                forgetAll();
            }
        } finally {
            use.writeLock().unlock();
        }
    }

    private void forgetAll() {
        synchronized (index) {
            pieceBytes.clear();
            for (Chunk chunk = index.nextToEvict(null); chunk != null; chunk = index.nextToEvict(null)) {
                index.removeTree(chunk);
            }
        }
    }

    /** For tests. */
    void checkIntegrity() {
        synchronized (index) {
            index.checkIntegrity();
            if (pieceBytes.size() != index.numChunks()) {
                throw new IllegalStateException(
                        pieceBytes.size() + " chunks have lengths, " + index.numChunks() + " are in the index");
            }
        }
    }
}
