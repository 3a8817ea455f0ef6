package io.millrace.kernels;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Memory outside of the Java heap that holds pairs of bfloat16 numbers, an int each, for {@link PanelKernels}. Does not own it:
 * it must not be used once the memory is freed. Any thread.
 */
public final class PairMemory {
    private final ByteBuffer bytes;
    private final Object vectors; // what vectors are loaded from; null where there are none

    /** @param memory a direct buffer, of which what lies between its position and its limit counts */
    public PairMemory(ByteBuffer memory) {
        if (!memory.isDirect()) {
            throw new IllegalArgumentException("a buffer on the Java heap cannot be PairMemory; use arrays there");
        }
        bytes = memory.slice().order(ByteOrder.nativeOrder());
        vectors = KernelChoice.best().remark().isEmpty() ? VectorPairs.viewOf(bytes) : null;
    }

    ByteBuffer bytes() {
        return bytes;
    }

    Object vectors() {
        return vectors;
    }
}
