package io.millrace.operators.tier;

import io.millrace.operators.tier.ChunkIndex.Chunk;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.StoreStats;
import io.millrace.prefix.TierMiss;
import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.runtime.state.KeyedStateBackend;

/**
 * Prefix KV in Flink's keyed state: it is in every checkpoint, survives failures, and follows its key group when the job is
 * rescaled.
 *
 * <p>State belongs to the task thread, so calls only queue work, and the task thread does it in mails while the engine
 * thread computes. A mail reads or writes one piece (about a megabyte), and only one is on its way at a time: records and
 * barriers wait for one piece at most. Reads go before writes, writes before evictions that nobody waits for.
 *
 * <p>A chunk's manifest is written before its first piece and again, as complete, after its last one; a restore from in
 * between removes the pieces.
 */
public final class StatePrefixStore implements PrefixStore {
    /** One being read and one behind it: an answer may ask for the next. */
    private static final int MAX_LOADS_IN_FLIGHT = 2;

    private final StateChunks chunks;
    private final Mailbox mailbox;
    private final long maxBytesToWrite;
    private final LongConsumer mailNanos;

    // Filled by the engine thread, and loads by whoever answers; emptied by the task thread.
    private final Queue<Find> finds = new ConcurrentLinkedQueue<>();
    private final Queue<Load> loads = new ConcurrentLinkedQueue<>();
    private final Queue<ChunkWrite> writes = new ConcurrentLinkedQueue<>();
    private final Map<Long, Load> loadsByTicket = new ConcurrentHashMap<>();
    private final AtomicLong numBytesToWrite = new AtomicLong();
    private final AtomicLong numChunksRefused = new AtomicLong();
    private final AtomicBoolean mailPosted = new AtomicBoolean();
    private volatile long generation;
    private volatile boolean closed;
    private volatile StoreStats stats = StoreStats.NONE;
    private Answers answers;

    private ChunkWrite writing; // task thread only

    /**
     * What may be kept.
     *
     * @param maxBytes of all chunks of this subtask
     * @param ttlMillis chunks unused for longer are evicted; 0 for never
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

    /**
     * A store over a task's keyed state.
     *
     * @param backend of the same state, to set keys and to go through them
     * @param disk any place on the disk that state lies on
     * @param mailNanos told how long each mail held the task thread; called there
     */
    public StatePrefixStore(
            KeyedStateStore store,
            KeyedStateBackend<Long> backend,
            Mailbox mailbox,
            Limits limits,
            File disk,
            LongConsumer mailNanos) {
        this(
                new KeyedChunkState(store, backend),
                mailbox,
                limits,
                System::currentTimeMillis,
                disk::getUsableSpace,
                mailNanos);
    }

    StatePrefixStore(
            ChunkState state,
            Mailbox mailbox,
            Limits limits,
            LongSupplier millisClock,
            LongSupplier freeBytes,
            LongConsumer mailNanos) {
        this.chunks = new StateChunks(state, limits.maxBytes(), limits.ttlMillis(), millisClock, freeBytes);
        this.mailbox = mailbox;
        this.maxBytesToWrite = limits.maxBytesToWrite();
        this.mailNanos = mailNanos;
    }

    // ------------------------------------------------------------------ task thread

    /** Takes over what the state holds; before the engine starts. Task thread; changes the current key. */
    public void restore() throws Exception {
        chunks.restore();
        stats = chunks.stats(0);
    }

    /**
     * Says what KV is computed with from now on; chunks written before under anything else can hit no more, and are evicted
     * first. Task thread.
     */
    public void setGeneration(String numericFingerprint, long policyVersion) {
        generation = ChunkIndex.generation(numericFingerprint, policyVersion);
        chunks.setGeneration(generation);
    }

    /** Evicts what has become too old; to be called now and then. Task thread. */
    public void tick() {
        if (chunks.isEvictionDue()) {
            post();
        }
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
        ChunkWrite write = new ChunkWrite(affinityKey, chain, pieces, generation);
        if (closed || numBytesToWrite.addAndGet(write.numBytes) > maxBytesToWrite) {
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
            answers.found(find.ticket(), chunks.find(find.affinityKey(), find.chain()));
        }
        if (!readPiece() && !writePiece() && chunks.isEvictionDue()) {
            chunks.evictOne();
        }
        stats = chunks.stats(numChunksRefused.get());
        mailNanos.accept(System.nanoTime() - start);
        mailPosted.set(false);
        if (!finds.isEmpty() || !loads.isEmpty() || writing != null || !writes.isEmpty() || chunks.isEvictionDue()) {
            post();
        }
    }

    /** Reads the next piece of the load that is first in line; false if there is none. */
    private boolean readPiece() {
        Load load = loads.peek();
        while (load != null && load.cancelled) {
            loads.remove();
            load = loads.peek();
        }
        if (load == null) {
            return false;
        }
        Chunk chunk = chunks.chunk(load.affinityKey, load.key);
        if (chunk == null) {
            end(load);
            if (load.numRead == 0) {
                answers.missed(load.ticket, TierMiss.NOT_STORED, "it is not stored");
            } else {
                answers.missed(load.ticket, TierMiss.EVICTED, "it was evicted while it was read");
            }
            return true;
        }
        if (load.pieces == null) {
            load.pieces = new byte[chunk.numPieces][];
        }
        byte[] piece = chunks.readPiece(chunk, load.numRead);
        if (piece == null) {
            end(load);
            answers.missed(
                    load.ticket,
                    TierMiss.READ_FAILED,
                    "piece " + load.numRead + " of " + chunk.numPieces + " cannot be read from state");
            return true;
        }
        load.pieces[load.numRead++] = piece;
        if (load.numRead == chunk.numPieces) {
            end(load);
            chunk.setDelivered();
            answers.loaded(load.ticket, load.pieces);
        }
        return true;
    }

    private void end(Load load) {
        loads.remove(load);
        loadsByTicket.remove(load.ticket);
    }

    /** Does the next part of writing; false if nothing is to be written. */
    private boolean writePiece() {
        if (writing == null) {
            writing = writes.poll();
        }
        if (writing == null) {
            return false;
        }
        if (chunks.write(writing)) {
            numBytesToWrite.addAndGet(-writing.numBytes);
            answers.gaveBack(writing.pieces); // state has copied them
            writing = null;
        }
        return true;
    }

    /** For tests. */
    ChunkIndex index() {
        return chunks.index();
    }
}
