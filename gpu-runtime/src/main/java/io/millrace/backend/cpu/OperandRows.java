package io.millrace.backend.cpu;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import java.util.Arrays;

/**
 * The left operand of attention's products, [rows][width] in their format, outside of the Java heap: what is put there is in that
 * format already. Parts of rows are put together in an array first, since many small copies to such memory are slow.
 */
final class OperandRows implements AutoCloseable {
    private final Kernels kernels;
    private final ActivationBuffer buffer;
    private final int width;
    private final short[] halves; // null where the format is float32
    private final float[] floats; // null where it is bfloat16
    private boolean areHeld; // rows in the array, where they stand as in the buffer

    OperandRows(int maxRows, int width, NumberFormat format, Kernels kernels) {
        this.kernels = kernels;
        this.width = width;
        buffer = new ActivationBuffer(maxRows, width, format, kernels);
        halves = format == NumberFormat.BFLOAT16 ? new short[maxRows * width] : null;
        floats = format == NumberFormat.FLOAT32 ? new float[maxRows * width] : null;
    }

    ActivationBuffer buffer() {
        return buffer;
    }

    /** Sets whole rows, from the front of an array. */
    void put(int firstRow, int numRows, float[] source) {
        if (halves == null) {
            buffer.put(firstRow, 0, source, 0, numRows * width);
        } else {
            kernels.narrow(source, 0, halves, 0, numRows * width);
            buffer.putHalves(firstRow, halves, numRows * width);
        }
    }

    /** Sets a part of a row; {@link #send} must follow, once all parts are set. */
    void hold(int row, int column, float[] source, int from, int count) {
        areHeld = true;
        if (halves == null) {
            System.arraycopy(source, from, floats, row * width + column, count);
        } else {
            kernels.narrow(source, from, halves, row * width + column, count);
        }
    }

    /** The same for zeros. */
    void holdZeros(int row, int column, int count) {
        areHeld = true;
        int at = row * width + column;
        if (halves == null) {
            Arrays.fill(floats, at, at + count, 0f);
        } else {
            Arrays.fill(halves, at, at + count, (short) 0);
        }
    }

    /** Says that the rows have been set. */
    void send(int firstRow, int numRows) {
        if (!areHeld) {
            return;
        }
        areHeld = false;
        if (halves == null) {
            buffer.put(firstRow, 0, floats, firstRow * width, numRows * width);
        } else {
            buffer.putHalves(firstRow, halves, firstRow * width, numRows * width);
        }
    }

    /** Copies a row that was sent to the front of an array. */
    void read(int row, float[] target) {
        if (halves == null) {
            buffer.get(row, 0, target, 0, width);
            return;
        }
        buffer.getHalves(row, halves, width); // which hold nothing once rows are sent
        for (int i = 0; i < width; i++) {
            target[i] = Bfloat16.widen(halves[i]);
        }
    }

    @Override
    public void close() {
        buffer.close();
    }
}
