package io.millrace.backend.cpu;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.bytedeco.javacpp.BytePointer;

/** Memory outside of the Java heap, on cache lines or, if large, on huge pages; freed by hand. Not zeroed. */
final class NativeBuffer implements AutoCloseable {
    private static final int ALIGNMENT_BYTES = 64;

    private final BytePointer allocation;
    private final long alignedPosition;
    private final long sizeBytes;

    NativeBuffer(long sizeBytes) {
        this.sizeBytes = sizeBytes;
        boolean isLarge = sizeBytes >= HugePages.SIZE_BYTES;
        long alignment = isLarge ? HugePages.SIZE_BYTES : ALIGNMENT_BYTES;
        this.allocation = new BytePointer(sizeBytes + alignment);
        this.alignedPosition = -allocation.address() & (alignment - 1);
        if (isLarge) {
            long numBytes = sizeBytes / HugePages.SIZE_BYTES * HugePages.SIZE_BYTES;
            HugePages.adviseFor(allocation.address() + alignedPosition, numBytes);
        }
    }

    long sizeBytes() {
        return sizeBytes;
    }

    /** A pointer of the caller's own at a byte offset; it must not outlive this buffer. */
    BytePointer pointerAt(long offsetBytes) {
        BytePointer pointer = new BytePointer(allocation);
        pointer.position(alignedPosition + offsetBytes);
        return pointer;
    }

    /** Moves a pointer that {@link #pointerAt} gave. */
    void movePointer(BytePointer pointer, long offsetBytes) {
        pointer.position(alignedPosition + offsetBytes);
    }

    /** All of it, in native byte order; at most 2 GiB. */
    ByteBuffer asByteBuffer() {
        if (sizeBytes > Integer.MAX_VALUE) {
            throw new IllegalStateException("buffer of " + sizeBytes + " bytes is above the 2 GiB of a Java buffer");
        }
        BytePointer pointer = pointerAt(0);
        pointer.limit(alignedPosition + sizeBytes);
        return pointer.asByteBuffer().order(ByteOrder.nativeOrder());
    }

    @Override
    public void close() {
        allocation.deallocate();
    }
}
