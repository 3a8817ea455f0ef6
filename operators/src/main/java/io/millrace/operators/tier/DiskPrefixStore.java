package io.millrace.operators.tier;

import io.millrace.engine.InvalidConfigException;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.StoreStats;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Chunks on the process's local disk, in no checkpoint: for more KV than anybody wants to upload. All stores of equal options in
 * a process share one database, whatever the affinity key; it begins empty with the first and is deleted with the last. Chunks
 * of a process that died are deleted unread by the next one, so that a store is cold after a failure, and never wrong.
 */
public final class DiskPrefixStore implements PrefixStore {
    private static final Map<DiskStoreOptions, Shared> OPENED = new HashMap<>(); // guarded by itself

    private final DiskWorkers workers;
    private final Runnable release;
    private final Map<Long, Ticket> tickets = new ConcurrentHashMap<>();
    private final AtomicLong numBytesRead = new AtomicLong();
    private final AtomicLong numBytesWritten = new AtomicLong();
    private final AtomicLong numChunksWritten = new AtomicLong();
    private final AtomicLong numChunksDropped = new AtomicLong();
    private final AtomicLong readNanos = new AtomicLong();
    private volatile boolean closed;
    private long generation;
    private Answers answers;

    private static final class Shared {
        final DiskWorkers workers;
        int numUsers;

        Shared(DiskWorkers workers) {
            this.workers = workers;
        }
    }

    /** @param release called once, when this store is closed */
    DiskPrefixStore(DiskWorkers workers, Runnable release) {
        this.workers = workers;
        this.release = release;
    }

    /**
     * Opens the process's store, making its database if there is none yet.
     *
     * @throws InvalidConfigException if the directory cannot be used
     */
    public static DiskPrefixStore open(DiskStoreOptions options) {
        synchronized (OPENED) {
            Shared shared = OPENED.get(options);
            if (shared == null) {
                shared = new Shared(start(options));
                OPENED.put(options, shared);
            }
            shared.numUsers++;
            return new DiskPrefixStore(shared.workers, () -> release(options));
        }
    }

    private static DiskWorkers start(DiskStoreOptions options) {
        try {
            StoreDirectory directory = StoreDirectory.create(Path.of(options.directory()));
            DiskChunks chunks = new DiskChunks(
                    new RocksPieceDatabase(directory, options.capacityBytes(), options.usesDirectReads()),
                    directory.path().toString(),
                    options.capacityBytes(),
                    options.ttl().toMillis(),
                    System::currentTimeMillis);
            return new DiskWorkers(chunks, options.maxBytesToWrite(), options.numReaderThreads());
        } catch (IOException | RuntimeException e) {
            InvalidConfigException refusal = new InvalidConfigException(
                    "--tier-directory",
                    options.directory(),
                    "no database can be made there: " + e,
                    "name a directory on a local disk that this user may write");
            refusal.initCause(e);
            throw refusal;
        }
    }

    private static void release(DiskStoreOptions options) {
        synchronized (OPENED) {
            Shared shared = OPENED.get(options);
            if (--shared.numUsers == 0) {
                OPENED.remove(options);
                shared.workers.close();
            }
        }
    }

    /** Says what KV is computed with from now on; chunks of anything else are evicted first. Before the engine starts. */
    public void setGeneration(String numericFingerprint, long policyVersion) {
        generation = ChunkIndex.generation(numericFingerprint, policyVersion);
        workers.chunks().setGeneration(generation);
    }

    @Override
    public void open(Answers receiver) {
        answers = receiver;
    }

    /** Answers at once: the index is in memory. */
    @Override
    public void find(long ticket, long affinityKey, List<ChunkKey> chain) {
        answers.found(
                ticket, workers.chunks().suspension() == null ? workers.chunks().numLeading(chain) : 0);
    }

    @Override
    public void load(long ticket, long affinityKey, ChunkKey key) {
        Ticket load = new Ticket(ticket, key);
        tickets.put(ticket, load);
        workers.submit(load);
    }

    @Override
    public void cancel(long ticket) {
        tickets.remove(ticket);
    }

    @Override
    public boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces) {
        boolean isTaken = !closed && workers.submit(new ChunkWrite(0, chain, pieces, generation), this::written);
        if (!isTaken) {
            numChunksDropped.incrementAndGet();
        }
        return isTaken;
    }

    private void written(ChunkWrite chunk, boolean isKept) {
        answers.gaveBack(chunk.pieces);
        if (isKept) {
            numBytesWritten.addAndGet(chunk.numBytes);
            numChunksWritten.incrementAndGet();
        } else {
            numChunksDropped.incrementAndGet();
        }
    }

    @Override
    public int maxLoadsInFlight() {
        return workers.numReaderThreads() + 1;
    }

    /** Chunks held, evicted and failed are the process's; what was read and written is this store's. */
    @Override
    public StoreStats stats() {
        DiskChunks chunks = workers.chunks();
        return new StoreStats(
                chunks.numChunks(),
                chunks.numBytes(),
                numBytesRead.get(),
                numBytesWritten.get(),
                numChunksWritten.get(),
                numChunksDropped.get(),
                chunks.numEvicted(),
                chunks.numFailures(),
                readNanos.get());
    }

    /** Why the store keeps nothing any more; null while it does. */
    public String suspension() {
        return workers.chunks().suspension();
    }

    @Override
    public void close() {
        synchronized (tickets) {
            if (closed) {
                return;
            }
            closed = true;
        }
        tickets.clear();
        release.run();
    }

    /** A load of this store. */
    private final class Ticket implements DiskWorkers.Load {
        private final long number;
        private final ChunkKey key;

        Ticket(long number, ChunkKey key) {
            this.number = number;
            this.key = key;
        }

        @Override
        public ChunkKey key() {
            return key;
        }

        @Override
        public byte[][] arraysFor(int[] pieceBytes) {
            return answers.arraysFor(pieceBytes);
        }

        @Override
        public void giveBack(byte[][] pieces) {
            answers.gaveBack(pieces);
        }

        @Override
        public boolean isCancelled() {
            return closed || tickets.get(number) != this;
        }

        @Override
        public void answer(DiskChunks.Reading reading, long nanos) {
            if (!tickets.remove(number, this) || closed) {
                if (reading.pieces() != null) {
                    answers.gaveBack(reading.pieces());
                }
                return;
            }
            readNanos.addAndGet(nanos);
            if (reading.pieces() == null) {
                answers.missed(number, reading.miss(), reading.missReason());
                return;
            }
            for (byte[] piece : reading.pieces()) {
                numBytesRead.addAndGet(piece.length);
            }
            answers.loaded(number, reading.pieces());
        }
    }
}
