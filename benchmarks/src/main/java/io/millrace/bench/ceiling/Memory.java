package io.millrace.bench.ceiling;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.SplittableRandom;
import org.bytedeco.javacpp.BytePointer;

/** Memory outside of the Java heap, on a cache line, freed by hand. */
final class Memory implements AutoCloseable {
    private static final int ALIGNMENT_BYTES = 64;
    private static final int PATTERN_BYTES = 1 << 16;
    private static final long MAX_VIEW_BYTES = 1 << 30;

    private final BytePointer allocation;
    private final long start;
    private final long sizeBytes;

    Memory(long sizeBytes) {
        this.sizeBytes = sizeBytes;
        this.allocation = new BytePointer(sizeBytes + ALIGNMENT_BYTES);
        this.start = -allocation.address() & (ALIGNMENT_BYTES - 1);
    }

    BytePointer pointer() {
        return new BytePointer(allocation).position(start);
    }

    /** Fills with random normal numbers of small size, so that no product overflows or meets subnormals. */
    void fillRandom(boolean bfloat16, long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        ByteBuffer pattern = ByteBuffer.allocate(PATTERN_BYTES).order(ByteOrder.nativeOrder());
        while (pattern.hasRemaining()) {
            float value = (float) ((random.nextDouble() - 0.5) * 0.1);
            if (bfloat16) {
                pattern.putShort((short) (Float.floatToRawIntBits(value) >>> 16));
            } else {
                pattern.putFloat(value);
            }
        }
        for (long at = 0; at < sizeBytes; at += MAX_VIEW_BYTES) {
            ByteBuffer view = view(at, Math.min(MAX_VIEW_BYTES, sizeBytes - at));
            while (view.hasRemaining()) {
                pattern.rewind().limit(Math.min(PATTERN_BYTES, view.remaining()));
                view.put(pattern);
            }
        }
    }

    private ByteBuffer view(long offset, long length) {
        BytePointer pointer = new BytePointer(allocation);
        pointer.position(start + offset).limit(start + offset + length);
        return pointer.asByteBuffer();
    }

    @Override
    public void close() {
        allocation.deallocate();
    }
}
