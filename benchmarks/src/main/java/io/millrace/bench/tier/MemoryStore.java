package io.millrace.bench.tier;

import io.millrace.prefix.ChunkCodec;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.StoreStats;
import io.millrace.prefix.TierMiss;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** A store in memory: as fast as a store can be, so that what stands before it alone decides. Any thread. */
public final class MemoryStore implements PrefixStore {
    private final Map<ChunkKey, byte[][]> chunks;
    private final AtomicLong numBytesRead = new AtomicLong();
    private final AtomicLong numBytesWritten = new AtomicLong();
    private final AtomicLong numChunksWritten = new AtomicLong();
    private volatile Answers answers;

    /** An empty store. */
    public MemoryStore() {
        this(new ConcurrentHashMap<>());
    }

    /** A store of chunks that others may share; the map takes concurrent access. */
    public MemoryStore(Map<ChunkKey, byte[][]> chunks) {
        this.chunks = chunks;
    }

    @Override
    public void open(Answers receiver) {
        answers = receiver;
    }

    @Override
    public void find(long ticket, long affinityKey, List<ChunkKey> chain) {
        int numChunks = 0;
        while (numChunks < chain.size() && chunks.containsKey(chain.get(numChunks))) {
            numChunks++;
        }
        answers.found(ticket, numChunks);
    }

    @Override
    public void load(long ticket, long affinityKey, ChunkKey key) {
        byte[][] pieces = chunks.get(key);
        if (pieces == null) {
            answers.missed(ticket, TierMiss.NOT_STORED, "absent");
            return;
        }
        byte[][] copy = new byte[pieces.length][];
        for (int i = 0; i < copy.length; i++) {
            copy[i] = pieces[i].clone();
            numBytesRead.addAndGet(copy[i].length);
        }
        answers.loaded(ticket, copy);
    }

    @Override
    public void cancel(long ticket) {} // answered already

    @Override
    public boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces) {
        for (byte[] piece : pieces) {
            ChunkCodec.seal(piece);
            numBytesWritten.addAndGet(piece.length);
        }
        chunks.put(chain.get(chain.size() - 1), pieces);
        numChunksWritten.incrementAndGet();
        return true;
    }

    @Override
    public int maxLoadsInFlight() {
        return 2;
    }

    @Override
    public StoreStats stats() {
        return new StoreStats(
                chunks.size(),
                numBytesWritten.get(),
                numBytesRead.get(),
                numBytesWritten.get(),
                numChunksWritten.get(),
                0,
                0,
                0,
                0);
    }

    @Override
    public void close() {}
}
