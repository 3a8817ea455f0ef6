package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The threads that read and write a process's chunks, and what waits for them. Loads are taken in the order they were asked
 * for, by as many threads as there are; one thread seals and writes. The threads are daemons: one that hangs in the disk keeps
 * nobody from ending.
 */
final class DiskWorkers {
    private static final Logger LOG = LoggerFactory.getLogger(DiskWorkers.class);
    private static final long TICK_MILLIS = 500;
    private static final long JOIN_MILLIS = 5_000;

    private final DiskChunks chunks;
    private final long maxBytesToWrite;
    private final int numReaderThreads;
    private final BlockingQueue<Load> loads = new LinkedBlockingQueue<>();
    private final BlockingQueue<Write> writes = new LinkedBlockingQueue<>();
    private final Set<ChunkKey> keysToWrite = ConcurrentHashMap.newKeySet();
    private final AtomicLong numBytesToWrite = new AtomicLong();
    private final List<Thread> threads = new ArrayList<>();
    private volatile boolean closed;

    /** A chunk that somebody waits for. */
    interface Load extends DiskChunks.Arrays {
        ChunkKey key();

        /** Whether the answer is of no use any more. */
        boolean isCancelled();

        /** Takes the answer; called on a reader thread. */
        void answer(DiskChunks.Reading reading, long nanos);
    }

    /** A chunk to keep, and who is told whether it was. */
    record Write(ChunkWrite chunk, Outcome outcome) {}

    /** Told on the writer thread. */
    interface Outcome {
        void written(ChunkWrite chunk, boolean isKept);
    }

    DiskWorkers(DiskChunks chunks, long maxBytesToWrite, int numReaderThreads) {
        this.chunks = chunks;
        this.maxBytesToWrite = maxBytesToWrite;
        this.numReaderThreads = numReaderThreads;
        for (int i = 0; i < numReaderThreads; i++) {
            start("millrace-tier-read-" + i, this::readLoads);
        }
        start("millrace-tier-write", this::writeChunks);
    }

    private void start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        threads.add(thread);
        thread.start();
    }

    DiskChunks chunks() {
        return chunks;
    }

    int numReaderThreads() {
        return numReaderThreads;
    }

    void submit(Load load) {
        loads.add(load);
    }

    /** Takes a chunk to write; false if the buffer is full. One that is kept already, or about to be, is taken and let go. */
    boolean submit(ChunkWrite chunk, Outcome outcome) {
        if (closed || chunks.suspension() != null) {
            return false;
        }
        ChunkKey key = chunk.place.key();
        if (chunks.contains(key)) {
            return true;
        }
        if (numBytesToWrite.addAndGet(chunk.numBytes) > maxBytesToWrite) {
            numBytesToWrite.addAndGet(-chunk.numBytes);
            return false;
        }
        if (keysToWrite.add(key)) {
            writes.add(new Write(chunk, outcome));
        } else {
            numBytesToWrite.addAndGet(-chunk.numBytes);
        }
        return true;
    }

    private void readLoads() {
        while (!closed) {
            try {
                Load load = loads.take();
                if (!load.isCancelled()) {
                    long start = System.nanoTime();
                    DiskChunks.Reading reading = chunks.read(load.key(), load);
                    load.answer(reading, System.nanoTime() - start);
                }
            } catch (InterruptedException e) {
                return; // closed
            } catch (RuntimeException e) {
                LOG.error("the receiver of a chunk failed; go on with the next", e);
            }
        }
    }

    private void writeChunks() {
        while (!closed) {
            try {
                Write write = writes.poll(TICK_MILLIS, TimeUnit.MILLISECONDS);
                if (write != null) {
                    boolean isKept = chunks.write(write.chunk);
                    keysToWrite.remove(write.chunk.place.key());
                    numBytesToWrite.addAndGet(-write.chunk.numBytes);
                    write.outcome.written(write.chunk, isKept);
                } else {
                    chunks.evictUnused();
                }
                chunks.cleanUp();
            } catch (InterruptedException e) {
                return; // closed
            }
        }
    }

    /** Bytes that wait to be written. */
    long numBytesToWrite() {
        return numBytesToWrite.get();
    }

    /** Stops the threads, closes and deletes the database. What waits is dropped. */
    void close() {
        closed = true;
        threads.forEach(Thread::interrupt);
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(JOIN_MILLIS);
        try {
            for (Thread thread : threads) {
                long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
                thread.join(Math.max(1, left));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        loads.clear();
        writes.clear();
        chunks.close();
    }
}
