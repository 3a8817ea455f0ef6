package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/** Pieces in a map, with a disk's troubles on demand. */
final class FaultyPieceDatabase implements PieceDatabase {
    final Map<String, byte[]> pieces = new ConcurrentHashMap<>();
    final AtomicInteger numReads = new AtomicInteger();
    volatile boolean failsReads;
    volatile boolean failsWrites;
    volatile boolean isDeleted;
    volatile boolean isClosed;
    volatile CountDownLatch hang; // reads and writes wait for it
    volatile Runnable beforeRead = () -> {};

    private static String name(ChunkKey key, int piece) {
        return key + "/" + piece;
    }

    private void pass() throws IOException {
        if (isClosed) {
            throw new AssertionError("used after it was closed");
        }
        CountDownLatch latch = hang;
        try {
            if (latch != null) {
                latch.await();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        }
    }

    @Override
    public boolean read(ChunkKey key, int piece, byte[] into) throws IOException {
        numReads.incrementAndGet();
        pass();
        beforeRead.run();
        if (failsReads) {
            throw new IOException("Input/output error");
        }
        byte[] bytes = pieces.get(name(key, piece));
        if (bytes == null || bytes.length != into.length) {
            return false;
        }
        System.arraycopy(bytes, 0, into, 0, bytes.length);
        return true;
    }

    @Override
    public void write(ChunkKey key, int piece, byte[] bytes) throws IOException {
        pass();
        if (failsWrites) {
            throw new IOException("No space left on device");
        }
        pieces.put(name(key, piece), bytes.clone());
    }

    @Override
    public void remove(ChunkKey key, int piece) throws IOException {
        pieces.remove(name(key, piece));
    }

    @Override
    public void reclaim() {}

    @Override
    public long numFileBytes() {
        return pieces.values().stream().mapToLong(bytes -> bytes.length).sum();
    }

    @Override
    public boolean isThere() {
        return !isDeleted;
    }

    @Override
    public void close() {
        isClosed = true;
    }
}
