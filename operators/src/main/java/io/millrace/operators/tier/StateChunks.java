package io.millrace.operators.tier;

import io.millrace.operators.tier.ChunkIndex.Chunk;
import io.millrace.operators.tier.ChunkIndex.Place;
import io.millrace.prefix.ChunkCodec;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.StoreStats;
import io.millrace.schemas.ChunkManifest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The chunks in a task's state, and the index of them in memory, kept in step. Every call does a bounded piece of work: one
 * piece read or written, one chunk evicted. What state cannot do, for whatever reason, is counted and logged once, and the
 * chunk is forgotten. Task thread only.
 */
final class StateChunks {
    private static final Logger LOG = LoggerFactory.getLogger(StateChunks.class);

    /** Access times in state may be behind by this share of the time to live, so that a hit seldom costs a write. */
    private static final int ACCESS_TIMES_PER_TTL = 16;

    private static final long MIN_ACCESS_LAG_MILLIS = 60_000;

    /** Room on the disk that is left to the state of requests, without which the job cannot go on. */
    static final long MIN_FREE_BYTES = 1L << 30;

    private final ChunkState state;
    private final long maxBytes;
    private final long ttlMillis;
    private final LongSupplier millisClock;
    private final LongSupplier freeBytes;
    private final ChunkIndex index = new ChunkIndex();
    private long numBytesRead;
    private long numBytesWritten;
    private long numChunksWritten;
    private long numChunksDropped;
    private long numChunksEvicted;
    private long numFailures;
    private long readNanos;
    private boolean failureLogged;
    private boolean fullDiskLogged;

    /**
     * @param maxBytes of all chunks
     * @param ttlMillis chunks unused for longer are evicted; 0 for never
     * @param millisClock wall clock: access times outlive the process
     * @param freeBytes on the disk that state lies on
     */
    StateChunks(ChunkState state, long maxBytes, long ttlMillis, LongSupplier millisClock, LongSupplier freeBytes) {
        this.state = state;
        this.maxBytes = maxBytes;
        this.ttlMillis = ttlMillis;
        this.millisClock = millisClock;
        this.freeBytes = freeBytes;
    }

    /** Builds the index from the manifests; removes what was half written or has lost the chunk before it. */
    void restore() throws Exception {
        Map<Place, ChunkManifest> found = new HashMap<>();
        Map<Place, ChunkManifest> doubtful = new HashMap<>();
        state.forEachManifest((affinityKey, key, manifest) ->
                (manifest.getComplete() ? found : doubtful).put(new Place(affinityKey, key), manifest));
        List<Map.Entry<Place, ChunkManifest>> inOrder = new ArrayList<>(found.entrySet());
        inOrder.sort(Comparator.comparingInt(entry -> entry.getValue().getPosition()));
        for (Map.Entry<Place, ChunkManifest> entry : inOrder) {
            Place place = entry.getKey();
            ChunkManifest m = entry.getValue();
            ChunkKey parentKey = new ChunkKey(m.getParentHigh(), m.getParentLow());
            Chunk parent = m.getPosition() == 0 ? null : index.get(place.affinityKey(), parentKey);
            if (m.getPosition() > 0 && parent == null) {
                doubtful.put(place, m);
            } else {
                index.add(place, parent, m.getPieces(), m.getBytes(), m.getGeneration(), m.getLastAccess());
            }
        }
        doubtful.forEach((place, manifest) -> remove(place, manifest.getPieces()));
        if (!found.isEmpty() || !doubtful.isEmpty()) {
            LOG.info(
                    "the prefix tier holds {} chunks of {} bytes in restored state; {} that were half written or had lost the "
                            + "chunk before them were removed",
                    index.numChunks(),
                    index.numBytes(),
                    doubtful.size());
        }
    }

    /** Chunks of other generations can hit no more, and are evicted first. */
    void setGeneration(long current) {
        index.setGeneration(current);
    }

    /** How many of the chain's leading chunks are there; they count as used. */
    int find(long affinityKey, List<ChunkKey> chain) {
        int n = index.numLeading(affinityKey, chain);
        if (n > 0) {
            Chunk last = index.get(affinityKey, chain.get(n - 1));
            index.touch(last, millisClock.getAsLong());
            persistAccess(last);
        }
        return n;
    }

    private void persistAccess(Chunk last) {
        long lag = Math.max(MIN_ACCESS_LAG_MILLIS, ttlMillis / ACCESS_TIMES_PER_TTL);
        try {
            for (Chunk chunk = last; chunk != null && chunk.unpersistedMillis() > lag; chunk = chunk.parent) {
                state.putManifest(chunk.place.affinityKey(), chunk.place.key(), manifest(chunk));
                chunk.accessPersisted();
            }
        } catch (Exception e) {
            failed("noting the use of chunk " + last.place.key(), e);
        }
    }

    /** The chunk, or null. */
    Chunk chunk(long affinityKey, ChunkKey key) {
        return index.get(affinityKey, key);
    }

    /** A piece, or null if state has it no more or cannot read it: then the chunk is forgotten. */
    byte[] readPiece(Chunk chunk, int piece) {
        long start = System.nanoTime();
        byte[] bytes = null;
        try {
            bytes = state.readPiece(chunk.place.affinityKey(), chunk.place.key(), piece);
            if (bytes == null) {
                failed("finding piece " + piece + " of chunk " + chunk.place.key(), null);
            }
        } catch (Exception e) {
            failed("reading piece " + piece + " of chunk " + chunk.place.key(), e);
        }
        readNanos += System.nanoTime() - start;
        if (bytes == null) {
            forget(chunk);
        } else {
            numBytesRead += bytes.length;
        }
        return bytes;
    }

    /** Does the next part of a write: makes room by one eviction, or writes a piece. True if nothing is left to do. */
    boolean write(ChunkWrite write) {
        try {
            if (write.numWritten == 0) {
                Ready ready = prepare(write);
                if (ready != Ready.YES) {
                    return ready == Ready.NEVER;
                }
            }
            byte[] piece = write.pieces[write.numWritten];
            ChunkCodec.seal(piece);
            state.writePiece(write.place.affinityKey(), write.place.key(), write.numWritten, piece);
            write.numWritten++;
            numBytesWritten += piece.length;
            if (write.numWritten < write.pieces.length) {
                return false;
            }
            complete(write);
        } catch (Exception e) {
            failed("writing chunk " + write.place.key(), e);
            remove(write.place, write.pieces.length);
        }
        return true;
    }

    private enum Ready {
        YES,
        /** Something was done for it; to be tried again. */
        NOT_YET,
        NEVER
    }

    /** Whether the chunk's pieces may be written now. */
    private Ready prepare(ChunkWrite write) throws Exception {
        Chunk there = index.get(write.place.affinityKey(), write.place.key());
        if (there != null && !there.isDelivered()) {
            return Ready.NEVER; // two requests met the same prefix
        }
        if (there != null) {
            // It was handed out and computed again nevertheless: perhaps it was found wrong.
            forget(there);
            return Ready.NOT_YET;
        }
        Chunk parent = parent(write);
        if (write.parentKey != null && parent == null || write.numBytes > maxBytes) {
            numChunksDropped++;
            return Ready.NEVER;
        }
        if (freeBytes.getAsLong() < MIN_FREE_BYTES) {
            numChunksDropped++;
            logFullDisk();
            return Ready.NEVER;
        }
        if (index.numBytes() + write.numBytes > maxBytes) {
            Chunk tail = index.nextToEvict(parent);
            if (tail == null) {
                numChunksDropped++;
                return Ready.NEVER;
            }
            evict(tail);
            return Ready.NOT_YET;
        }
        putManifest(write, false, 0);
        return Ready.YES;
    }

    private void complete(ChunkWrite write) throws Exception {
        Chunk parent = parent(write);
        if (write.parentKey != null && parent == null) {
            numChunksDropped++; // a read found the parent broken meanwhile
            remove(write.place, write.pieces.length);
            return;
        }
        long now = millisClock.getAsLong();
        putManifest(write, true, now);
        Chunk chunk = index.add(write.place, parent, write.pieces.length, write.numBytes, write.generation, now);
        index.touch(chunk, now);
        numChunksWritten++;
    }

    private Chunk parent(ChunkWrite write) {
        return write.parentKey == null ? null : index.get(write.place.affinityKey(), write.parentKey);
    }

    private void putManifest(ChunkWrite write, boolean complete, long access) throws Exception {
        state.putManifest(
                write.place.affinityKey(),
                write.place.key(),
                new ChunkManifest(
                        complete,
                        write.pieces.length,
                        write.numBytes,
                        write.position,
                        write.parentKey == null ? 0L : write.parentKey.high(),
                        write.parentKey == null ? 0L : write.parentKey.low(),
                        write.generation,
                        access));
    }

    private static ChunkManifest manifest(Chunk chunk) {
        return new ChunkManifest(
                true,
                chunk.numPieces,
                chunk.numBytes,
                chunk.position,
                chunk.parent == null ? 0L : chunk.parent.place.key().high(),
                chunk.parent == null ? 0L : chunk.parent.place.key().low(),
                chunk.generation,
                chunk.lastAccessMillis());
    }

    /** Whether something is older than it may be, or more than there may be: after a restore with other limits. */
    boolean isEvictionDue() {
        return index.numBytes() > maxBytes || expired() != null;
    }

    /** Evicts one chunk that is due. */
    void evictOne() {
        Chunk expired = expired();
        evict(expired != null ? expired : index.nextToEvict(null));
    }

    private Chunk expired() {
        return ttlMillis == 0 ? null : index.lastUsedBefore(millisClock.getAsLong() - ttlMillis);
    }

    private void evict(Chunk tail) {
        forget(tail);
        numChunksEvicted++;
    }

    /** Takes a chunk, and all behind it, out of index and state. */
    private void forget(Chunk chunk) {
        index.removeTree(chunk).forEach(gone -> remove(gone.place, gone.numPieces));
    }

    private void remove(Place place, int numPieces) {
        try {
            for (int piece = 0; piece < numPieces; piece++) {
                state.removePiece(place.affinityKey(), place.key(), piece);
            }
            state.removeManifest(place.affinityKey(), place.key());
        } catch (Exception e) {
            failed("removing chunk " + place.key(), e);
        }
    }

    private void logFullDisk() {
        if (!fullDiskLogged) {
            fullDiskLogged = true;
            LOG.warn(
                    "the prefix tier in state: nothing is stored while less than {} bytes are free on the disk of the "
                            + "TaskManager's working directory, which the requests' own state needs; make room, or lower "
                            + "--tier-capacity-bytes. What is not stored is counted (tier_store_chunks_dropped_total)",
                    MIN_FREE_BYTES);
        }
    }

    private void failed(String what, Exception cause) {
        numFailures++;
        if (!failureLogged) {
            failureLogged = true;
            LOG.warn(
                    "the prefix tier in state: {} failed; it counts as a miss and the job goes on. Look at the disk of the "
                            + "TaskManager's working directory. Further failures are only counted (tier_store_failures_total)",
                    what,
                    cause);
        }
    }

    /** @param numChunksRefused dropped before they came here */
    StoreStats stats(long numChunksRefused) {
        return new StoreStats(
                index.numChunks(),
                index.numBytes(),
                numBytesRead,
                numBytesWritten,
                numChunksWritten,
                numChunksDropped + numChunksRefused,
                numChunksEvicted,
                numFailures,
                readNanos);
    }

    /** For tests. */
    ChunkIndex index() {
        return index;
    }
}
