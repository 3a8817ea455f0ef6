package io.millrace.backend.cpu;

import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/** Memory outside of the Java heap for a product's right operand: float32 numbers, or as many pairs of bfloat16 ones. */
final class OperandWords implements AutoCloseable {
    private final NativeBuffer memory;
    private final IntBuffer ints;
    private final FloatBuffer floats;

    OperandWords(long sizeBytes) {
        memory = new NativeBuffer(sizeBytes);
        ints = memory.asByteBuffer().asIntBuffer();
        floats = memory.asByteBuffer().asFloatBuffer();
    }

    NativeBuffer memory() {
        return memory;
    }

    IntBuffer ints() {
        return ints;
    }

    FloatBuffer floats() {
        return floats;
    }

    @Override
    public void close() {
        memory.close();
    }
}
