package io.millrace.bench.tier;

import io.millrace.prefix.ChunkCodec;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.StoreStats;
import io.millrace.prefix.TierMiss;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;

/**
 * A store behind a link of some bandwidth, on virtual time: one chunk after the other, in the order asked for. Finding and
 * storing take no time. One thread.
 */
public final class VirtualStore implements PrefixStore {
    private static final int MAX_LOADS_IN_FLIGHT = 2; // the one on the link and the next

    private final VirtualClock clock;
    private final Bandwidth bandwidth;
    private final double chunkBytes;
    private final Map<ChunkKey, byte[][]> chunks;
    private final ArrayDeque<Load> queue = new ArrayDeque<>();
    private Answers answers;
    private boolean linkBusy;
    private long numBytesRead;
    private long numWritten;
    private long busyNanos;

    private record Load(long ticket, ChunkKey key) {}

    /**
     * A store.
     *
     * @param chunkBytes what a chunk weighs on the link, whatever its pieces weigh here
     * @param chunks what is stored; others may share it
     */
    public VirtualStore(VirtualClock clock, Bandwidth bandwidth, double chunkBytes, Map<ChunkKey, byte[][]> chunks) {
        this.clock = clock;
        this.bandwidth = bandwidth;
        this.chunkBytes = chunkBytes;
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
        int found = numChunks;
        clock.schedule(clock.getAsLong(), () -> answers.found(ticket, found));
    }

    @Override
    public void load(long ticket, long affinityKey, ChunkKey key) {
        queue.add(new Load(ticket, key));
        startNext();
    }

    private void startNext() {
        Load load = linkBusy ? null : queue.poll();
        if (load == null) {
            return;
        }
        byte[][] pieces = chunks.get(load.key());
        if (pieces == null) {
            clock.schedule(clock.getAsLong(), () -> answers.missed(load.ticket(), TierMiss.NOT_STORED, "absent"));
            startNext();
            return;
        }
        linkBusy = true;
        long start = clock.getAsLong();
        long end = bandwidth.finishNanos(start, chunkBytes);
        clock.schedule(end, () -> {
            linkBusy = false;
            busyNanos += end - start;
            numBytesRead += Math.round(chunkBytes);
            startNext();
            answers.loaded(load.ticket(), copy(pieces));
        });
    }

    private static byte[][] copy(byte[][] pieces) {
        byte[][] copy = new byte[pieces.length][];
        for (int i = 0; i < copy.length; i++) {
            copy[i] = pieces[i].clone();
        }
        return copy;
    }

    /** Takes a load that has not begun out of the queue; one on the link is carried to its end. */
    @Override
    public void cancel(long ticket) {
        queue.removeIf(load -> load.ticket() == ticket);
    }

    @Override
    public boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces) {
        for (byte[] piece : pieces) {
            ChunkCodec.seal(piece);
        }
        chunks.put(chain.get(chain.size() - 1), pieces);
        numWritten++;
        return true;
    }

    @Override
    public int maxLoadsInFlight() {
        return MAX_LOADS_IN_FLIGHT;
    }

    @Override
    public StoreStats stats() {
        long numBytes = Math.round(chunks.size() * chunkBytes);
        return new StoreStats(
                chunks.size(),
                numBytes,
                numBytesRead,
                Math.round(numWritten * chunkBytes),
                numWritten,
                0,
                0,
                0,
                busyNanos);
    }

    @Override
    public void close() {
        queue.clear();
    }
}
