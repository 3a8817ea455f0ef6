package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.PageCache;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierMiss;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.atomic.AtomicLong;

/**
 * How fast a store writes and reads chunks of a size. Twice as many are written as are read: what was written last may still
 * be in memory. One thread drives it; whoever answers may be another.
 */
final class StoreBandwidth {
    private static final int MAX_PIECE_BYTES = 1 << 20;
    private static final int CHAIN_CHUNKS = 16;
    private static final int MAX_IDLE_CHUNKS = 4;
    private static final long TIMEOUT_NANOS = 120_000_000_000L;

    private final PrefixStore store;
    private final Runnable work;
    private final long chunkBytes;
    private final int numChunks;
    private final AtomicLong numAnswered = new AtomicLong();
    private final AtomicLong numMissed = new AtomicLong();
    private final BlockingQueue<byte[][]> idle =
            new ArrayBlockingQueue<>(MAX_IDLE_CHUNKS); // all of one size, as an engine's

    /**
     * Bytes a second.
     *
     * @param written from the first chunk handed over until the last is written
     * @param cold read with the page cache dropped; NaN where it cannot be
     * @param warm read once more
     */
    record Rates(double written, double cold, double warm) {}

    /**
     * A measurement of an open store.
     *
     * @param work does a little of what the store left to the caller's thread; called while waiting
     */
    StoreBandwidth(PrefixStore store, Runnable work, long chunkBytes, int numChunks) {
        this.store = store;
        this.work = work;
        this.chunkBytes = chunkBytes;
        this.numChunks = numChunks;
        store.open(new PrefixStore.Answers() {
            @Override
            public void found(long ticket, int count) {}

            @Override
            public byte[][] arraysFor(int[] pieceBytes) {
                byte[][] pieces = idle.poll();
                return pieces == null ? PrefixStore.Answers.super.arraysFor(pieceBytes) : pieces;
            }

            @Override
            public void loaded(long ticket, byte[][] pieces) {
                idle.offer(pieces);
                numAnswered.incrementAndGet();
            }

            @Override
            public void missed(long ticket, TierMiss reason, String text) {
                numMissed.incrementAndGet();
                numAnswered.incrementAndGet();
            }
        });
    }

    /** Measures; files of the store lie below the directory. */
    Rates run(Path directory) throws IOException {
        double written = write(2 * numChunks);
        boolean dropped = PageCache.drop(directory);
        double cold = read();
        double warm = read();
        if (numMissed.get() > 0) {
            throw new IllegalStateException(
                    numMissed + " of " + 2 * numChunks + " reads found nothing of what was written");
        }
        return new Rates(written, dropped ? cold : Double.NaN, warm);
    }

    private static ChunkKey key(int chunk) {
        return new ChunkKey(0x5eed_0000L + chunk / CHAIN_CHUNKS, chunk);
    }

    private static long affinity(int chunk) {
        return chunk / CHAIN_CHUNKS;
    }

    private double write(int count) {
        Random random = new Random(1);
        long start = System.nanoTime();
        for (int chunk = 0; chunk < count; chunk++) {
            List<ChunkKey> chain = new ArrayList<>();
            for (int each = chunk / CHAIN_CHUNKS * CHAIN_CHUNKS; each <= chunk; each++) {
                chain.add(key(each));
            }
            byte[][] pieces = pieces(random);
            long writtenBefore = store.stats().numChunksWritten();
            store.store(affinity(chunk), chain, pieces);
            await(() -> store.stats().numChunksWritten() > writtenBefore, start);
        }
        return count * (double) chunkBytes / (System.nanoTime() - start) * 1e9;
    }

    private byte[][] pieces(Random random) {
        int count = (int) ((chunkBytes + MAX_PIECE_BYTES - 1) / MAX_PIECE_BYTES);
        byte[][] pieces = new byte[count][];
        for (int i = 0; i < count; i++) {
            pieces[i] = new byte[(int) (chunkBytes / count)];
            random.nextBytes(pieces[i]);
        }
        return pieces;
    }

    private double read() {
        long start = System.nanoTime();
        numAnswered.set(0);
        int numAsked = 0;
        while (numAnswered.get() < numChunks) {
            if (numAsked < numChunks && numAsked - numAnswered.get() < store.maxLoadsInFlight()) {
                store.load(numAsked + 1L, affinity(numAsked), key(numAsked));
                numAsked++;
            } else {
                step(start);
            }
        }
        return numChunks * (double) chunkBytes / (System.nanoTime() - start) * 1e9;
    }

    private interface Condition {
        boolean holds();
    }

    private void await(Condition condition, long start) {
        while (!condition.holds()) {
            step(start);
        }
    }

    private void step(long start) {
        work.run();
        Thread.onSpinWait();
        if (System.nanoTime() - start > TIMEOUT_NANOS) {
            throw new IllegalStateException("the store did not answer within two minutes");
        }
    }
}
