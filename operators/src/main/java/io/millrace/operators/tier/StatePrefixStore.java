package io.millrace.operators.tier;

import io.millrace.operators.tier.ChunkIndex.Chunk;
import io.millrace.operators.tier.ChunkIndex.Place;
import io.millrace.prefix.ChunkCodec;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.StoreStats;
import io.millrace.schemas.ChunkManifest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Prefix KV in Flink's keyed state: it is in every checkpoint, survives failures, and follows its key group when the job is
 * rescaled.
 *
 * <p>State belongs to the task thread, so calls only queue work, and the task thread does it in mails while the engine
 * thread computes. A mail reads or writes one piece (about a megabyte), and only one is on its way at a time: records and
 * barriers wait for one piece at most. Reads go before writes, writes before evictions that nobody waits for.
 *
 * <p>A chunk's manifest is written before its first piece and again, as complete, after its last one; a restore from
 * in between removes the pieces. What state cannot answer, for whatever reason, is a miss: counted, logged once, and the
 * chunk is forgotten.
 */
public final class StatePrefixStore implements PrefixStore {
    private static final Logger LOG = LoggerFactory.getLogger(StatePrefixStore.class);

    /** Enough for the reads of one engine step, so that the task thread need not wait for the engine to ask again. */
    private static final int MAX_LOADS_IN_FLIGHT = 16;

    /** Access times in state may be behind by this share of the time to live, so that a hit seldom costs a write. */
    private static final int ACCESS_TIMES_PER_TTL = 16;

    private static final long MIN_ACCESS_LAG_MILLIS = 60_000;

    private final ChunkState state;
    private final Mailbox mailbox;
    private final Limits limits;
    private final LongSupplier millisClock;
    private final LongConsumer mailNanos;

    // Filled by the engine thread, emptied by the task thread.
    private final Queue<Find> finds = new ConcurrentLinkedQueue<>();
    private final Queue<Load> loads = new ConcurrentLinkedQueue<>();
    private final Queue<Write> writes = new ConcurrentLinkedQueue<>();
    private final Map<Long, Load> loadsByTicket = new ConcurrentHashMap<>();
    private final AtomicLong numBytesToWrite = new AtomicLong();
    private final AtomicLong numChunksRefused = new AtomicLong();
    private final AtomicBoolean mailPosted = new AtomicBoolean();
    private volatile boolean closed;
    private volatile StoreStats stats = StoreStats.NONE;
    private volatile Answers answers;

    // Task thread only.
    private final ChunkIndex index = new ChunkIndex();
    private Write writing;
    private long numBytesRead;
    private long numBytesWritten;
    private long numChunksWritten;
    private long numChunksDropped;
    private long numChunksEvicted;
    private long numFailures;
    private long readNanos;
    private boolean failureLogged;

    /**
     * What may be kept.
     *
     * @param maxBytes of all chunks of this subtask
     * @param ttlMillis chunks unused for longer are removed; 0 for never
     * @param maxBytesToWrite of chunks that wait to be written; more are dropped
     */
    public record Limits(long maxBytes, long ttlMillis, long maxBytesToWrite) {}

    /** How work gets to the task thread. */
    public interface Mailbox {
        /** Runs the mail on the task thread soon, after what waits there; leaves the current key as it was. Any thread. */
        void post(Runnable mail);
    }

    private record Find(long ticket, long affinityKey, List<ChunkKey> chain) {}

    private static final class Load {
        final long ticket;
        final long affinityKey;
        final ChunkKey key;
        byte[][] pieces;
        int numRead;
        volatile boolean cancelled;

        Load(long ticket, long affinityKey, ChunkKey key) {
            this.ticket = ticket;
            this.affinityKey = affinityKey;
            this.key = key;
        }
    }

    private static final class Write {
        final long affinityKey;
        final List<ChunkKey> chain;
        final byte[][] pieces;
        final long numBytes;
        final long generation;
        int numWritten;

        Write(long affinityKey, List<ChunkKey> chain, byte[][] pieces, long generation) {
            this.affinityKey = affinityKey;
            this.chain = List.copyOf(chain);
            this.pieces = pieces;
            this.generation = generation;
            long bytes = 0;
            for (byte[] piece : pieces) {
                bytes += piece.length;
            }
            numBytes = bytes;
        }

        ChunkKey key() {
            return chain.get(chain.size() - 1);
        }

        Place place() {
            return new Place(affinityKey, key());
        }
    }

    private volatile long generation;

    /**
     * A store over a task's state.
     *
     * @param millisClock wall clock: access times outlive the process
     * @param mailNanos told how long each mail held the task thread; called there
     */
    StatePrefixStore(
            ChunkState state, Mailbox mailbox, Limits limits, LongSupplier millisClock, LongConsumer mailNanos) {
        this.state = state;
        this.mailbox = mailbox;
        this.limits = limits;
        this.millisClock = millisClock;
        this.mailNanos = mailNanos;
    }

    // ------------------------------------------------------------------ task thread: start and time

    /** Takes over what the state holds. Task thread, before the engine starts. */
    public void restore() throws Exception {
        Map<Place, ChunkManifest> found = new HashMap<>();
        Map<Place, ChunkManifest> doubtful = new HashMap<>();
        state.forEachManifest((affinityKey, key, manifest) ->
                (manifest.getComplete() ? found : doubtful).put(new Place(affinityKey, key), manifest));
        List<Map.Entry<Place, ChunkManifest>> inOrder = new ArrayList<>(found.entrySet());
        inOrder.sort(java.util.Comparator.comparingInt(entry -> entry.getValue().getPosition()));
        for (Map.Entry<Place, ChunkManifest> entry : inOrder) {
            Place place = entry.getKey();
            ChunkManifest manifest = entry.getValue();
            ChunkKey parentKey = new ChunkKey(manifest.getParentHigh(), manifest.getParentLow());
            Chunk parent = manifest.getPosition() == 0 ? null : index.get(place.affinityKey(), parentKey);
            if (manifest.getPosition() > 0 && parent == null) {
                doubtful.put(place, manifest);
                continue;
            }
            index.add(
                    place,
                    parent,
                    manifest.getPieces(),
                    manifest.getBytes(),
                    manifest.getGeneration(),
                    manifest.getLastAccess());
        }
        for (Map.Entry<Place, ChunkManifest> entry : doubtful.entrySet()) {
            remove(entry.getKey(), entry.getValue().getPieces());
        }
        if (!found.isEmpty() || !doubtful.isEmpty()) {
            LOG.info(
                    "the state tier holds {} chunks of {} bytes after the restore; {} that were half written or out of their "
                            + "chain were removed",
                    index.numChunks(),
                    index.numBytes(),
                    doubtful.size());
        }
        publish();
    }

    /** Chunks written from now on belong to this generation; those of others can hit no more and are evicted first. */
    public void setGeneration(long current) {
        generation = current;
        index.setGeneration(current);
    }

    /** Removes what is too old or too much; to be called now and then. Task thread. */
    public void tick() {
        if (evictionDue()) {
            post();
        }
    }

    private boolean evictionDue() {
        return index.numBytes() > limits.maxBytes() || expired() != null;
    }

    private Chunk expired() {
        return limits.ttlMillis() == 0 ? null : index.lastUsedBefore(millisClock.getAsLong() - limits.ttlMillis());
    }

    // ------------------------------------------------------------------ engine thread

    @Override
    public void open(Answers receiver) {
        answers = receiver;
    }

    @Override
    public void find(long ticket, long affinityKey, List<ChunkKey> chain) {
        finds.add(new Find(ticket, affinityKey, List.copyOf(chain)));
        post();
    }

    @Override
    public void load(long ticket, long affinityKey, ChunkKey key) {
        Load load = new Load(ticket, affinityKey, key);
        loadsByTicket.put(ticket, load);
        loads.add(load);
        post();
    }

    @Override
    public void cancel(long ticket) {
        Load load = loadsByTicket.remove(ticket);
        if (load != null) {
            load.cancelled = true;
        }
    }

    @Override
    public boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces) {
        Write write = new Write(affinityKey, chain, pieces, generation);
        if (closed || numBytesToWrite.addAndGet(write.numBytes) > limits.maxBytesToWrite()) {
            numBytesToWrite.addAndGet(-write.numBytes);
            numChunksRefused.incrementAndGet();
            return false;
        }
        writes.add(write);
        post();
        return true;
    }

    @Override
    public int maxLoadsInFlight() {
        return MAX_LOADS_IN_FLIGHT;
    }

    @Override
    public StoreStats stats() {
        return stats;
    }

    @Override
    public void close() {
        closed = true;
        finds.clear();
        loads.clear();
        loadsByTicket.clear();
        writes.clear();
    }

    private void post() {
        if (!closed && mailPosted.compareAndSet(false, true)) {
            mailbox.post(this::work);
        }
    }

    // ------------------------------------------------------------------ task thread: one piece a mail

    private void work() {
        if (closed) {
            return;
        }
        long start = System.nanoTime();
        for (Find find = finds.poll(); find != null; find = finds.poll()) {
            answer(find);
        }
        if (!readPiece() && !writePiece() && evictionDue()) {
            Chunk old = expired();
            evict(old != null ? old : index.nextToEvict(null));
        }
        publish();
        mailNanos.accept(System.nanoTime() - start);
        mailPosted.set(false);
        if (!finds.isEmpty() || !loads.isEmpty() || writing != null || !writes.isEmpty() || evictionDue()) {
            post();
        }
    }

    private void answer(Find find) {
        int n = index.numLeading(find.affinityKey(), find.chain());
        if (n > 0) {
            Chunk last = index.get(find.affinityKey(), find.chain().get(n - 1));
            index.touch(last, millisClock.getAsLong());
            persistAccess(last);
        }
        answers.found(find.ticket(), n);
    }

    private void persistAccess(Chunk last) {
        long lag = Math.max(MIN_ACCESS_LAG_MILLIS, limits.ttlMillis() / ACCESS_TIMES_PER_TTL);
        try {
            for (Chunk chunk = last; chunk != null && chunk.unpersistedMillis() > lag; chunk = chunk.parent) {
                state.putManifest(chunk.place.affinityKey(), chunk.place.key(), manifest(chunk, true));
                chunk.accessPersisted();
            }
        } catch (Exception e) {
            failed("the access time of chunk " + last.place, e);
        }
    }

    /** Reads the next piece of the load that is first in line; false if none is. */
    private boolean readPiece() {
        Load load = loads.peek();
        while (load != null && load.cancelled) {
            loads.remove();
            load = loads.peek();
        }
        if (load == null) {
            return false;
        }
        Chunk chunk = index.get(load.affinityKey, load.key);
        if (chunk == null) {
            miss(load, "not stored");
            return true;
        }
        if (load.pieces == null) {
            load.pieces = new byte[chunk.numPieces][];
        }
        long start = System.nanoTime();
        byte[] piece;
        try {
            piece = state.readPiece(load.affinityKey, load.key, load.numRead);
        } catch (Exception e) {
            failed("piece " + load.numRead + " of chunk " + load.key, e);
            forget(chunk);
            miss(load, "reading state failed: " + e);
            return true;
        }
        readNanos += System.nanoTime() - start;
        if (piece == null) {
            numFailures++;
            forget(chunk);
            miss(load, "piece " + load.numRead + " of " + chunk.numPieces + " is not in state");
            return true;
        }
        numBytesRead += piece.length;
        load.pieces[load.numRead++] = piece;
        if (load.numRead == chunk.numPieces) {
            loads.remove();
            loadsByTicket.remove(load.ticket);
            chunk.setDelivered();
            answers.loaded(load.ticket, load.pieces);
        }
        return true;
    }

    private void miss(Load load, String reason) {
        loads.remove();
        loadsByTicket.remove(load.ticket);
        answers.missed(load.ticket, reason);
    }

    /** Writes the next piece, or makes room for it; false if nothing is to be written. */
    private boolean writePiece() {
        if (writing == null) {
            writing = writes.poll();
        }
        if (writing == null) {
            return false;
        }
        Write write = writing;
        try {
            if (write.numWritten == 0 && !begin(write)) {
                return true;
            }
            byte[] piece = write.pieces[write.numWritten];
            ChunkCodec.seal(piece);
            state.writePiece(write.affinityKey, write.key(), write.numWritten, piece);
            write.pieces[write.numWritten++] = null;
            numBytesWritten += piece.length;
            if (write.numWritten == write.pieces.length) {
                Chunk chunk = index.add(
                        write.place(),
                        parent(write),
                        write.pieces.length,
                        write.numBytes,
                        write.generation,
                        millisClock.getAsLong());
                index.touch(chunk, chunk.lastAccessMillis());
                state.putManifest(write.affinityKey, write.key(), manifest(chunk, true));
                numChunksWritten++;
                end(write);
            }
        } catch (Exception e) {
            failed("writing chunk " + write.key(), e);
            Chunk chunk = index.get(write.affinityKey, write.key());
            if (chunk != null) {
                index.removeTree(chunk);
            }
            remove(write.place(), write.pieces.length);
            end(write);
        }
        return true;
    }

    /** Whether the chunk's pieces may be written now; else one chunk made room, or the write is over. */
    private boolean begin(Write write) throws Exception {
        Chunk there = index.get(write.affinityKey, write.key());
        if (there != null && !there.isDelivered()) {
            end(write); // two requests met the same prefix
            return false;
        }
        if (there != null) {
            // It was handed out and computed again nevertheless: perhaps it was found wrong.
            forget(there);
            return false;
        }
        Chunk parent = parent(write);
        boolean orphan = write.chain.size() > 1 && parent == null;
        if (orphan || write.numBytes > limits.maxBytes()) {
            numChunksDropped++;
            end(write);
            return false;
        }
        if (index.numBytes() + write.numBytes > limits.maxBytes()) {
            Chunk tail = index.nextToEvict(parent);
            if (tail == null) {
                numChunksDropped++;
                end(write);
            } else {
                evict(tail);
            }
            return false;
        }
        ChunkManifest begun = manifest(
                write.pieces.length, write.numBytes, write.chain.size() - 1, parent, write.generation, 0, false);
        state.putManifest(write.affinityKey, write.key(), begun);
        return true;
    }

    private Chunk parent(Write write) {
        int n = write.chain.size();
        return n == 1 ? null : index.get(write.affinityKey, write.chain.get(n - 2));
    }

    private void end(Write write) {
        numBytesToWrite.addAndGet(-write.numBytes);
        writing = null;
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

    private static ChunkManifest manifest(Chunk chunk, boolean complete) {
        return manifest(
                chunk.numPieces,
                chunk.numBytes,
                chunk.position,
                chunk.parent,
                chunk.generation,
                chunk.lastAccessMillis(),
                complete);
    }

    private static ChunkManifest manifest(
            int numPieces, long bytes, int position, Chunk parent, long generation, long access, boolean complete) {
        long parentHigh = parent == null ? 0 : parent.place.key().high();
        long parentLow = parent == null ? 0 : parent.place.key().low();
        return new ChunkManifest(complete, numPieces, bytes, position, parentHigh, parentLow, generation, access);
    }

    private void failed(String what, Exception cause) {
        numFailures++;
        if (!failureLogged) {
            failureLogged = true;
            LOG.warn(
                    "the state tier: {} failed; it counts as a miss and the job goes on. Look at the disk of the TaskManager's "
                            + "working directory. Further failures are only counted (tier_store_failures_total)",
                    what,
                    cause);
        }
    }

    private void publish() {
        stats = new StoreStats(
                index.numChunks(),
                index.numBytes(),
                numBytesRead,
                numBytesWritten,
                numChunksWritten,
                numChunksDropped + numChunksRefused.get(),
                numChunksEvicted,
                numFailures,
                readNanos);
    }
}
