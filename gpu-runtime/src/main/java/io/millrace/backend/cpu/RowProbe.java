package io.millrace.backend.cpu;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import java.nio.ByteBuffer;
import java.util.Random;

/**
 * Finds the row counts of a shape whose rows come out with the anchor's bits: the same random rows, at several places and
 * among other companions, at every candidate count against the anchor count, with what ends their products. The library's own choice of kernels per
 * row count cannot be trusted to keep a row's bits.
 */
final class RowProbe {
    private final Kernels kernels;

    RowProbe(Kernels kernels) {
        this.kernels = kernels;
    }

    /** Probes on the calling compute thread. */
    RowCounts probe(MatmulShape shape) {
        try (Trial trial = new Trial(shape, kernels)) {
            int anchor = RowCounts.candidateOf(RowCounts.ANCHOR);
            float[][] expected = trial.results(anchor, 0);
            boolean[] accepted = new boolean[RowCounts.CANDIDATES.length];
            for (int candidate = 0; candidate < accepted.length; candidate++) {
                accepted[candidate] = true;
                for (int shift = 0; shift < 3; shift++) {
                    accepted[candidate] &= agree(expected, trial.results(candidate, shift), shift);
                }
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

    private static boolean agree(float[][] expected, float[][] computed, int shift) {
        for (int r = 0; r < computed.length; r++) {
            float[] row = expected[rowAt(r, shift)];
            for (int i = 0; i < row.length; i++) {
                if (Float.floatToRawIntBits(row[i]) != Float.floatToRawIntBits(computed[r][i])) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Which of the random rows stands at a place. */
    private static int rowAt(int place, int shift) {
        return (place * (2 * shift + 1) + 11 * shift) % RowCounts.ANCHOR;
    }

    /** A random panel, random rows, and for each of these what its product meets at its end. */
    private static final class Trial implements AutoCloseable {
        private final MatmulShape shape;
        private final MatmulThread thread;
        private final NativeArena arena;
        private final PackedPanel panel;
        private final ActivationBuffer source;
        private final ActivationBuffer target;
        private final float[][] rows;
        private final float[][] met;
        private final short[] halfScratch;

        Trial(MatmulShape shape, Kernels kernels) {
            Random random = new Random(shape.depth() * 31L + shape.width());
            this.shape = shape;
            this.thread =
                    new MatmulThread(shape.end() == ProductEnd.GATE ? RowCounts.LARGEST * shape.resultStride() : 1);
            this.arena = new NativeArena(shape.packedBytes());
            this.panel = randomPanel(random);
            this.source = new ActivationBuffer(RowCounts.LARGEST, shape.depth(), shape.format(), kernels);
            this.target = new ActivationBuffer(RowCounts.LARGEST, shape.resultStride(), shape.resultFormat(), kernels);
            this.rows = gaussian(random, shape.depth());
            this.met = gaussian(random, shape.width());
            this.halfScratch = new short[Math.max(shape.depth(), shape.width())];
        }

        private static float[][] gaussian(Random random, int width) {
            float[][] values = new float[RowCounts.ANCHOR][width];
            for (float[] row : values) {
                for (int i = 0; i < row.length; i++) {
                    row[i] = (float) random.nextGaussian();
                }
            }
            return values;
        }

        private PackedPanel randomPanel(Random random) {
            float[] bias = new float[shape.width()];
            for (int i = 0; i < bias.length; i++) {
                bias[i] = (float) random.nextGaussian();
            }
            try (NativeBuffer plain = new NativeBuffer(
                    (long) shape.depth() * shape.width() * shape.format().bytes())) {
                ByteBuffer bytes = plain.asByteBuffer();
                while (bytes.hasRemaining()) {
                    float value = (float) random.nextGaussian() * 0.05f;
                    if (shape.format() == NumberFormat.BFLOAT16) {
                        bytes.putShort(Bfloat16.round(value));
                    } else {
                        bytes.putFloat(value);
                    }
                }
                return new PackedPanel(shape, plain, bias, arena, thread.stream());
            }
        }

        /** The product's rows, with those of the rows at places given by a shift. */
        float[][] results(int candidate, int shift) {
            float[][] results = new float[RowCounts.CANDIDATES[candidate]][shape.width()];
            for (int r = 0; r < results.length; r++) {
                source.put(r, 0, rows[rowAt(r, shift)], 0, shape.depth(), halfScratch);
                if (shape.end() == ProductEnd.ADD) {
                    target.put(r, 0, met[rowAt(r, shift)], 0, shape.width());
                } else if (shape.end() == ProductEnd.GATE) {
                    thread.writeTile(r * shape.resultStride(), met[rowAt(r, shift)], shape.width());
                }
            }
            thread.multiply(source, 0, candidate, panel, target, 0, 0);
            for (int r = 0; r < results.length; r++) {
                target.getWidened(r, 0, results[r], shape.width());
            }
            return results;
        }

        @Override
        public void close() {
            panel.close();
            thread.close();
            arena.close();
            source.close();
            target.close();
        }
    }
}
