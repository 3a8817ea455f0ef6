package io.millrace.bench.tier;

import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.StoreStats;
import io.millrace.prefix.TierMiss;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Another store behind a token bucket: loaded chunks are handed on at the bucket's rate, in real time and in the order in
 * which the store answers. A thread of its own does so.
 */
public final class ThrottledStore implements PrefixStore {
    private static final long POLL_MILLIS = 100;
    private static final long SPIN_NANOS = 100_000; // sleeping is about this coarse

    private final PrefixStore store;
    private final double bytesPerSecond;
    private final LinkedBlockingQueue<Loaded> loaded = new LinkedBlockingQueue<>();
    private final Set<Long> tickets = ConcurrentHashMap.newKeySet(); // of loads that somebody waits for
    private volatile boolean closed;
    private Thread thread;

    private record Loaded(long ticket, byte[][] pieces, long nanos) {
        long numBytes() {
            long sum = 0;
            for (byte[] piece : pieces) {
                sum += piece.length;
            }
            return sum;
        }
    }

    /** Owns the store from now on. */
    public ThrottledStore(PrefixStore store, double bytesPerSecond) {
        this.store = store;
        this.bytesPerSecond = bytesPerSecond;
    }

    @Override
    public void open(Answers answers) {
        thread = new Thread(() -> deliver(answers), "bench-throttle");
        thread.setDaemon(true);
        thread.start();
        store.open(new Answers() {
            @Override
            public void found(long ticket, int numChunks) {
                answers.found(ticket, numChunks);
            }

            @Override
            public void loaded(long ticket, byte[][] pieces) {
                loaded.add(new Loaded(ticket, pieces, System.nanoTime()));
            }

            @Override
            public void missed(long ticket, TierMiss reason, String text) {
                tickets.remove(ticket);
                answers.missed(ticket, reason, text);
            }

            @Override
            public byte[][] arraysFor(int[] pieceBytes) {
                return answers.arraysFor(pieceBytes);
            }

            @Override
            public void gaveBack(byte[][] pieces) {
                answers.gaveBack(pieces);
            }
        });
    }

    private void deliver(Answers answers) {
        // Nothing is kept for later: an idle link does not catch up.
        TokenBucket bucket = new TokenBucket(bytesPerSecond, 0, System.nanoTime());
        try {
            while (!closed) {
                Loaded next = loaded.poll(POLL_MILLIS, TimeUnit.MILLISECONDS);
                if (next != null) {
                    sleepUntil(bucket.take(next.numBytes(), next.nanos()));
                    if (tickets.remove(next.ticket())) {
                        answers.loaded(next.ticket(), next.pieces());
                    } else {
                        answers.gaveBack(next.pieces()); // cancelled on the link, which was taken up all the same
                    }
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // close() wants the thread's end
        }
    }

    private void sleepUntil(long nanos) throws InterruptedException {
        for (long left; (left = nanos - System.nanoTime()) > 0 && !closed; ) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            if (left > SPIN_NANOS) {
                LockSupport.parkNanos(left - SPIN_NANOS);
            } else {
                Thread.onSpinWait();
            }
        }
    }

    @Override
    public void find(long ticket, long affinityKey, List<ChunkKey> chain) {
        store.find(ticket, affinityKey, chain);
    }

    @Override
    public void load(long ticket, long affinityKey, ChunkKey key) {
        tickets.add(ticket);
        store.load(ticket, affinityKey, key);
    }

    @Override
    public void cancel(long ticket) {
        tickets.remove(ticket);
        store.cancel(ticket);
        loaded.removeIf(load -> load.ticket() == ticket);
    }

    @Override
    public boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces) {
        return store.store(affinityKey, chain, pieces);
    }

    @Override
    public int maxLoadsInFlight() {
        return Math.max(2, store.maxLoadsInFlight());
    }

    @Override
    public StoreStats stats() {
        return store.stats();
    }

    @Override
    public void close() {
        closed = true;
        if (thread != null) {
            thread.interrupt();
        }
        store.close();
    }
}
