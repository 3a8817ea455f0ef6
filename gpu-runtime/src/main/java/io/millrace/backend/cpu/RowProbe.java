package io.millrace.backend.cpu;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.Kernels;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;

/**
 * Finds the row counts of a shape whose rows come out with the anchor's bits: the same random rows, at several places and
 * among other companions, at every candidate count against the anchor count, with what ends their products. The library's
 * own choice of kernels per row count cannot be trusted to keep a row's bits. Used by one compute thread.
 */
final class RowProbe implements AutoCloseable {
    /** Of the anchor's rows, some of either kind and one that saturates. */
    private static final int NUM_SINGLE_ROWS = 6;

    private final MatmulShape shape;
    private final Trial trial;
    private final float[][] expected;

    /** Multiplies the anchor's rows. */
    RowProbe(MatmulShape shape, Kernels kernels) {
        this.shape = shape;
        this.trial = new Trial(shape, kernels);
        try {
            this.expected = trial.results(RowCounts.candidateOf(RowCounts.ANCHOR), 0);
        } catch (RuntimeException | Error e) {
            trial.close();
            throw e;
        }
    }

    /** The row counts that give the anchor's bits. */
    RowCounts rowCounts() {
        boolean[] accepted = new boolean[RowCounts.CANDIDATES.length];
        for (int candidate = 0; candidate < accepted.length; candidate++) {
            accepted[candidate] = true;
            for (int shift = 0; shift < 3; shift++) {
                accepted[candidate] &= agree(expected, trial.results(candidate, shift), shift);
            }
        }
        if (!accepted[RowCounts.candidateOf(RowCounts.ANCHOR)]) {
            throw new IllegalStateException("matrix product " + shape + " gives a row other bits at another place of"
                    + " " + RowCounts.ANCHOR
                    + " rows: oneDNN on this CPU cannot be used reproducibly; try the other"
                    + " --dtype, or set ONEDNN_MAX_CPU_ISA");
        }
        return new RowCounts(accepted);
    }

    /**
     * The depths that the library adds up at a time, so that {@link SingleRowProducts} gives a row the anchor's bits; 0 if none of
     * those tried does, or panels lie in another layout.
     */
    int sumDepth() {
        PanelBlocks blocks = shape.blocks();
        if (blocks == null || blocks.arePairs() && shape.depth() % 2 != 0) {
            return 0;
        }
        try (SingleRowProducts products = new SingleRowProducts(shape.depth(), shape.width(), trial.thread.stream())) {
            for (int depths : new int[] {shape.depth(), 1024, 512, 256}) {
                if (depths <= shape.depth()) {
                    shape.acceptSumDepth(depths);
                    int numAlike = 0;
                    while (numAlike < NUM_SINGLE_ROWS
                            && Arrays.equals(expected[numAlike], trial.result(products, numAlike))) {
                        numAlike++;
                    }
                    if (numAlike == NUM_SINGLE_ROWS) {
                        return depths;
                    }
                }
            }
            return 0;
        } finally {
            shape.acceptSumDepth(0);
        }
    }

    @Override
    public void close() {
        trial.close();
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

    /**
     * A random panel, random rows, and for each of these what its product meets at its end. Results that are rounded to
     * bfloat16 hardly show the order of a sum; so the second half of some columns is the first one's negative, and the
     * second half of some rows is the first one again: of these the exact product is 0, and what comes out is rounding
     * errors alone. A few other rows are so large that a gate's silu is saturated.
     */
    static final class Trial implements AutoCloseable {
        private static final float SATURATING = 50f;

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
            this.rows = randomRows(random);
            this.met = new float[RowCounts.ANCHOR][shape.width()];
            for (float[] row : met) {
                fill(row, random, 1f);
            }
            this.halfScratch = new short[Math.max(shape.depth(), shape.width())];
            try {
                this.thread =
                        new MatmulThread(shape.end() == ProductEnd.GATE ? RowCounts.LARGEST * shape.resultStride() : 1);
                this.arena = new NativeArena(2 * shape.packedBytes());
                arena.allocate(1); // panels do not all begin where their memory does
                this.panel = randomPanel(random);
                this.source = new ActivationBuffer(RowCounts.LARGEST, shape.depth(), shape.format(), kernels);
                this.target =
                        new ActivationBuffer(RowCounts.LARGEST, shape.resultStride(), shape.resultFormat(), kernels);
            } catch (RuntimeException | Error e) {
                close();
                throw e;
            }
        }

        /** Whether the exact products of a row with columns of {@link #isOpposed} are 0. */
        static boolean isRepeated(int row) {
            return row % 2 == 0;
        }

        /** Whether the exact products of a column with rows of {@link #isRepeated} are 0. */
        static boolean isOpposed(int column) {
            return column % 2 == 0;
        }

        private static boolean isSaturating(int row) {
            return row % 16 == 5;
        }

        private static void fill(float[] values, Random random, float scale) {
            for (int i = 0; i < values.length; i++) {
                values[i] = (float) random.nextGaussian() * scale;
            }
        }

        /** Makes the second half the first one by a sign, and an odd last number 0. */
        private static void repeatFirstHalf(float[] values, float sign) {
            int half = values.length / 2;
            for (int i = 0; i < half; i++) {
                values[half + i] = sign * values[i];
            }
            Arrays.fill(values, 2 * half, values.length, 0f);
        }

        private float[][] randomRows(Random random) {
            float[][] values = new float[RowCounts.ANCHOR][shape.depth()];
            for (int r = 0; r < values.length; r++) {
                fill(values[r], random, isSaturating(r) ? SATURATING : 1f);
                if (isRepeated(r)) {
                    repeatFirstHalf(values[r], 1f);
                }
            }
            return values;
        }

        private PackedPanel randomPanel(Random random) {
            float[] bias = new float[shape.width()];
            fill(bias, random, 1f);
            float[] column = new float[shape.depth()];
            try (NativeBuffer plain = new NativeBuffer(
                    (long) shape.depth() * shape.width() * shape.heldFormat().bytes())) {
                ByteBuffer bytes = plain.asByteBuffer();
                for (int c = 0; c < shape.width(); c++) {
                    fill(column, random, 0.05f);
                    if (isOpposed(c)) {
                        bias[c] = 0f;
                        repeatFirstHalf(column, -1f);
                    }
                    for (float value : column) {
                        if (shape.heldFormat() == NumberFormat.BFLOAT16) {
                            bytes.putShort(Bfloat16.round(value));
                        } else {
                            bytes.putFloat(value);
                        }
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

        /** One row's product by our own kernel; null if it leaves it to the library. */
        float[] result(SingleRowProducts products, int row) {
            source.put(0, 0, rows[row], 0, shape.depth(), halfScratch);
            products.begin();
            boolean isDone;
            if (shape.end() == ProductEnd.GATE) {
                isDone = products.gate(source, 0, met[row], panel, target, 0, 0);
            } else {
                if (shape.end() == ProductEnd.ADD) {
                    target.put(0, 0, met[row], 0, shape.width());
                }
                isDone = products.multiply(source, 0, panel, target, 0, 0);
            }
            float[] result = new float[shape.width()];
            target.getWidened(0, 0, result, shape.width());
            return isDone ? result : null;
        }

        @Override
        public void close() {
            // What is null could not be made.
            if (panel != null) {
                panel.close();
            }
            if (thread != null) {
                thread.close();
            }
            if (arena != null) {
                arena.close();
            }
            if (source != null) {
                source.close();
            }
            if (target != null) {
                target.close();
            }
        }
    }
}
