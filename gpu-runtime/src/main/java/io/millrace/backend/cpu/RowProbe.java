package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.nio.ByteBuffer;
import java.util.Random;

/**
 * Finds the row counts of a shape whose rows come out with the anchor's bits: the same random rows, at several places and
 * among other companions, at every candidate count against the anchor count. The library's own choice of kernels per
 * row count cannot be trusted to keep a row's bits.
 */
final class RowProbe {
    private final Kernels kernels;

    RowProbe(Kernels kernels) {
        this.kernels = kernels;
    }

    /** Probes on the calling compute thread. */
    RowCounts probe(MatmulShape shape) {
        Random random = new Random(shape.depth() * 31L + shape.width());
        try (MatmulThread thread = new MatmulThread(RowCounts.LARGEST * shape.width());
                NativeArena arena = new NativeArena(shape.packedBytes());
                PackedPanel panel = randomPanel(shape, random, arena, thread);
                ActivationBuffer rows =
                        new ActivationBuffer(RowCounts.LARGEST, shape.depth(), shape.format(), kernels)) {
            float[][] values = new float[RowCounts.ANCHOR][shape.depth()];
            for (float[] row : values) {
                for (int i = 0; i < row.length; i++) {
                    row[i] = (float) random.nextGaussian();
                }
            }
            float[][] expected = new float[RowCounts.ANCHOR][];
            int anchor = RowCounts.candidateOf(RowCounts.ANCHOR);
            fill(rows, values, RowCounts.ANCHOR, 1, 0);
            thread.multiply(rows, 0, anchor, panel);
            for (int r = 0; r < expected.length; r++) {
                expected[r] = new float[shape.width()];
                thread.readProduct(r * shape.width(), expected[r], 0, shape.width());
            }
            boolean[] accepted = new boolean[RowCounts.CANDIDATES.length];
            for (int candidate = 0; candidate < accepted.length; candidate++) {
                accepted[candidate] = agrees(thread, rows, values, expected, panel, candidate);
            }
            if (!accepted[anchor]) {
                throw new IllegalStateException(
                        "matrix product " + shape + " gives a row other bits at another place of"
                                + " " + RowCounts.ANCHOR
                                + " rows: oneDNN on this CPU cannot be used reproducibly; try the other"
                                + " --dtype, or set ONEDNN_MAX_CPU_ISA");
            }
            return new RowCounts(accepted);
        }
    }

    private boolean agrees(
            MatmulThread thread,
            ActivationBuffer rows,
            float[][] values,
            float[][] expected,
            PackedPanel panel,
            int candidate) {
        int count = RowCounts.CANDIDATES[candidate];
        int width = panel.shape().width();
        float[] computed = new float[width];
        for (int shift = 0; shift < 3; shift++) {
            int stride = 2 * shift + 1;
            fill(rows, values, count, stride, 11 * shift);
            thread.multiply(rows, 0, candidate, panel);
            for (int r = 0; r < count; r++) {
                thread.readProduct(r * width, computed, 0, width);
                float[] row = expected[(r * stride + 11 * shift) % RowCounts.ANCHOR];
                for (int i = 0; i < width; i++) {
                    if (Float.floatToRawIntBits(row[i]) != Float.floatToRawIntBits(computed[i])) {
                        return false;
                    }
                }
            }
        }
        return true;
    }

    private static void fill(ActivationBuffer rows, float[][] values, int count, int stride, int shift) {
        short[] scratch = new short[rows.width()];
        for (int r = 0; r < count; r++) {
            rows.put(r, 0, values[(r * stride + shift) % RowCounts.ANCHOR], 0, rows.width(), scratch);
        }
    }

    private PackedPanel randomPanel(MatmulShape shape, Random random, NativeArena arena, MatmulThread thread) {
        try (NativeBuffer plain = new NativeBuffer(
                (long) shape.depth() * shape.width() * shape.format().bytes())) {
            ByteBuffer bytes = plain.asByteBuffer();
            while (bytes.hasRemaining()) {
                float value = (float) random.nextGaussian() * 0.05f;
                if (shape.format() == NumberFormat.BFLOAT16) {
                    bytes.putShort(io.millrace.kernels.Bfloat16.round(value));
                } else {
                    bytes.putFloat(value);
                }
            }
            return new PackedPanel(shape, plain, arena, thread.stream());
        }
    }
}
