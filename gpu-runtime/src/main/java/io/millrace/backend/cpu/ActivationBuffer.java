package io.millrace.backend.cpu;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import java.nio.FloatBuffer;
import java.nio.ShortBuffer;

/**
 * What matrix products read and leave: [rows][width] in a number format, outside of the Java heap. Threads may write
 * distinct rows or columns at once. Has room for rows beyond those in use, since row counts are rounded up.
 */
final class ActivationBuffer implements AutoCloseable {
    private final int width;
    private final NumberFormat format;
    private final Kernels kernels;
    private final NativeBuffer memory;
    private final ShortBuffer halves;
    private final FloatBuffer floats;

    ActivationBuffer(int numRows, int width, NumberFormat format, Kernels kernels) {
        this.width = width;
        this.format = format;
        this.kernels = kernels;
        int allocatedRows = numRows + RowCounts.LARGEST;
        this.memory = new NativeBuffer((long) allocatedRows * width * format.bytes());
        this.halves = format == NumberFormat.BFLOAT16 ? memory.asByteBuffer().asShortBuffer() : null;
        this.floats = format == NumberFormat.FLOAT32 ? memory.asByteBuffer().asFloatBuffer() : null;
        // Rows never written must not be left to chance: garbage can be slow to multiply.
        float[] zeros = new float[width];
        short[] zeroHalves = new short[width];
        for (int row = 0; row < allocatedRows; row++) {
            put(row, 0, zeros, 0, width, zeroHalves);
        }
    }

    int width() {
        return width;
    }

    NativeBuffer memory() {
        return memory;
    }

    NumberFormat format() {
        return format;
    }

    long offsetBytes(int row, int column) {
        return ((long) row * width + column) * format.bytes();
    }

    /** Reads part of a row, where the format is float32. */
    void get(int row, int column, float[] target, int targetOffset, int count) {
        floats.get(row * width + column, target, targetOffset, count);
    }

    /** Reads part of a row to the front of an array, whatever the format. */
    void getWidened(int row, int column, float[] target, int count) {
        int at = row * width + column;
        for (int i = 0; i < count; i++) {
            target[i] = format == NumberFormat.BFLOAT16 ? Bfloat16.widen(halves.get(at + i)) : floats.get(at + i);
        }
    }

    /** Writes part of a row, where the format is float32. */
    void put(int row, int column, float[] source, int sourceOffset, int count) {
        floats.put(row * width + column, source, sourceOffset, count);
    }

    /** Writes part of a row; halfScratch holds at least count elements. */
    void put(int row, int column, float[] source, int sourceOffset, int count, short[] halfScratch) {
        int at = row * width + column;
        if (format == NumberFormat.BFLOAT16) {
            kernels.toBfloat16(source, sourceOffset, halfScratch, 0, count);
            halves.put(at, halfScratch, 0, count);
        } else {
            floats.put(at, source, sourceOffset, count);
        }
    }

    /**
     * Writes the same part of neighbouring rows, which lie together in source; halfScratch holds at least numRows × count
     * elements.
     */
    void putRows(
            int firstRow, int numRows, int column, float[] source, int sourceOffset, int count, short[] halfScratch) {
        if (format == NumberFormat.FLOAT32) {
            for (int r = 0; r < numRows; r++) {
                floats.put((firstRow + r) * width + column, source, sourceOffset + r * count, count);
            }
            return;
        }
        kernels.toBfloat16(source, sourceOffset, halfScratch, 0, numRows * count);
        if (count == width) {
            putHalves(firstRow, halfScratch, numRows * count);
            return;
        }
        for (int r = 0; r < numRows; r++) {
            halves.put((firstRow + r) * width + column, halfScratch, r * count, count);
        }
    }

    /** Writes neighbouring rows from the front of an array, where the format is bfloat16. */
    void putHalves(int firstRow, short[] source, int count) {
        putHalves(firstRow, source, 0, count);
    }

    /** Reads from a row's front on, where the format is bfloat16. */
    void getHalves(int row, short[] target, int count) {
        halves.get(row * width, target, 0, count);
    }

    void putHalves(int firstRow, short[] source, int sourceOffset, int count) {
        halves.put(firstRow * width, source, sourceOffset, count);
    }

    @Override
    public void close() {
        memory.close();
    }
}
