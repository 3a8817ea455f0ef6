package io.millrace.operators.tier;

import io.millrace.engine.InvalidConfigException;
import java.io.Serializable;
import java.time.Duration;
import java.util.Objects;

/**
 * What a store on local disk may use. Stores of equal options in one process are one.
 *
 * @param directory where the process makes a directory of its own, and deletes those of processes that have died
 * @param capacityBytes of files, all subtasks of the process together
 * @param ttl chunks unused for longer are evicted; zero for never
 * @param maxBytesToWrite chunks that wait in memory to be written; more are dropped
 * @param numReaderThreads threads that read chunks
 * @param usesDirectReads whether reads go past the page cache, which then stays with others; slower where it would have hit
 */
public record DiskStoreOptions(
        String directory,
        long capacityBytes,
        Duration ttl,
        long maxBytesToWrite,
        int numReaderThreads,
        boolean usesDirectReads)
        implements Serializable {
    public static final long DEFAULT_MAX_BYTES_TO_WRITE = 256L << 20;
    public static final int DEFAULT_NUM_READER_THREADS = 2;

    /** A piece has up to a mebibyte; less would hold none. */
    private static final long MIN_CAPACITY_BYTES = 4L << 20;

    public DiskStoreOptions {
        Objects.requireNonNull(ttl);
        if (directory.isBlank()) {
            throw new InvalidConfigException(
                    "--tier-directory", "", "a store on disk needs a directory", "give one on a local disk");
        }
        if (capacityBytes < MIN_CAPACITY_BYTES) {
            throw new InvalidConfigException(
                    "--tier-capacity-bytes",
                    capacityBytes,
                    "must be at least " + MIN_CAPACITY_BYTES + " on disk",
                    "try 10g");
        }
        if (ttl.isNegative()) {
            throw new InvalidConfigException("--tier-ttl", ttl, "must not be negative", "use 0 for no limit");
        }
        if (maxBytesToWrite < 1) {
            throw new IllegalArgumentException(
                    "the write buffer of the prefix tier has " + maxBytesToWrite + " bytes, it needs at least 1");
        }
        if (numReaderThreads < 1) {
            throw new IllegalArgumentException(
                    "the prefix tier has " + numReaderThreads + " reader threads, it needs at least 1");
        }
    }

    /** With the usual buffers and threads. */
    public static DiskStoreOptions of(String directory, long capacityBytes, Duration ttl) {
        return new DiskStoreOptions(
                directory, capacityBytes, ttl, DEFAULT_MAX_BYTES_TO_WRITE, DEFAULT_NUM_READER_THREADS, false);
    }
}
