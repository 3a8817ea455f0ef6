package io.millrace.backend.cpu;

import java.util.ArrayList;
import java.util.List;
import org.bytedeco.javacpp.BytePointer;

/**
 * Memory outside of the Java heap that is handed out in pieces and freed as a whole: pieces of a few hundred kilobytes, each
 * allocated alone, would lie on small pages, and the processor's prefetchers stop at every page's end. Thread-safe.
 */
final class NativeArena implements AutoCloseable {
    private static final long ALIGNMENT_BYTES = 64;

    private final long slabBytes;
    private final List<NativeBuffer> slabs = new ArrayList<>();
    private long numBytesUsed; // of the last slab

    /** @param slabBytes allocated at a time; a larger piece gets a slab of its own size */
    NativeArena(long slabBytes) {
        this.slabBytes = slabBytes;
    }

    /** A pointer to uninitialised memory on a cache line, valid until the arena is closed. */
    synchronized BytePointer allocate(long sizeBytes) {
        long rounded = (sizeBytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
        if (slabs.isEmpty()
                || numBytesUsed + rounded > slabs.get(slabs.size() - 1).sizeBytes()) {
            slabs.add(new NativeBuffer(Math.max(slabBytes, rounded)));
            numBytesUsed = 0;
        }
        BytePointer piece = slabs.get(slabs.size() - 1).pointerAt(numBytesUsed);
        numBytesUsed += rounded;
        return piece;
    }

    @Override
    public synchronized void close() {
        slabs.forEach(NativeBuffer::close);
        slabs.clear();
    }
}
