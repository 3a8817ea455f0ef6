package io.millrace.prefix;

/**
 * What a store did since it was opened.
 *
 * @param numChunks chunks it holds
 * @param numBytes bytes of them
 * @param numBytesRead read for loads
 * @param numBytesWritten written
 * @param numChunksWritten written
 * @param numChunksDropped not written: no room in the write buffer or on the disk, or the chunk before it was gone
 * @param numChunksEvicted removed for the size cap, age or a superseded policy version
 * @param numFailures reads and writes that failed
 * @param readNanos time spent reading
 */
public record StoreStats(
        long numChunks,
        long numBytes,
        long numBytesRead,
        long numBytesWritten,
        long numChunksWritten,
        long numChunksDropped,
        long numChunksEvicted,
        long numFailures,
        long readNanos) {
    public static final StoreStats NONE = new StoreStats(0, 0, 0, 0, 0, 0, 0, 0, 0);
}
