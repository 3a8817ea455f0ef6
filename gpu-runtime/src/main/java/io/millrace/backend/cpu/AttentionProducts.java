package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.nio.IntBuffer;

/**
 * One compute thread's means to run attention's two products over a whole tile by the matrix library: operands outside of
 * the Java heap, to which the tile is copied. The pool's pairs already stand in the library's order. Used by its thread only
 * (closed by any once the thread is done with it).
 */
final class AttentionProducts implements AutoCloseable {
    /** Below this, copying a tile takes longer than the kernels need for it. */
    static final int MIN_ROWS = 32;

    private final AttentionShapes shapes;
    private final RowCounts rowCounts;
    private final int headDim;
    private final MatmulThread thread;
    private final NativeBuffer keyMemory;
    private final NativeBuffer valueMemory;
    private final IntBuffer keyView;
    private final IntBuffer valueView;
    private final PackedPanel keys;
    private final PackedPanel values;
    private final ActivationBuffer queries;
    private final ActivationBuffer weights;
    private final short[] halfScratch;

    /** @param maxRows that are multiplied at a time */
    AttentionProducts(AttentionShapes shapes, int maxRows, Kernels kernels) {
        this.shapes = shapes;
        this.rowCounts = shapes.rowCounts();
        this.headDim = shapes.headDim();
        this.thread = new MatmulThread(RowCounts.LARGEST * Math.max(headDim, Kernels.TILE_SIZE));
        this.keyMemory = new NativeBuffer(shapes.keys().packedBytes());
        this.valueMemory = new NativeBuffer(shapes.values().packedBytes());
        this.keyView = keyMemory.asByteBuffer().asIntBuffer();
        this.valueView = valueMemory.asByteBuffer().asIntBuffer();
        this.keys = new PackedPanel(shapes.keys(), keyMemory);
        this.values = new PackedPanel(shapes.values(), valueMemory);
        this.queries = new ActivationBuffer(maxRows, headDim, NumberFormat.BFLOAT16, kernels);
        this.weights = new ActivationBuffer(maxRows, Kernels.TILE_SIZE, NumberFormat.BFLOAT16, kernels);
        this.halfScratch = new short[maxRows * Math.max(headDim, Kernels.TILE_SIZE)];
    }

    /** Sets the queries of the products to come, [rows][head dim] of bfloat16 numbers. */
    void putQueries(float[] source, int numRows) {
        queries.put(0, 0, source, 0, numRows * headDim, halfScratch);
    }

    /** {@link Kernels#scores} of rows of {@link #putQueries} with a whole tile of keys. */
    void scores(int firstRow, int numRows, int[] pairs, int[] keyOffsets, float[] scores) {
        copyKeys(pairs, keyOffsets);
        multiply(queries, firstRow, numRows, keys, scores);
    }

    private void copyKeys(int[] pairs, int[] keyOffsets) {
        int blockInts = Kernels.BLOCK_SIZE * headDim / 2;
        for (int b = 0; b < keyOffsets.length; b++) {
            keyView.put(b * blockInts, pairs, keyOffsets[b], blockInts);
        }
    }

    /** {@link Kernels#accumulate} of weights with a whole tile of values. */
    void accumulate(float[] source, int firstRow, int numRows, int[] pairs, int[] valueOffsets, float[] tileSums) {
        int tile = Kernels.TILE_SIZE;
        weights.put(firstRow, 0, source, firstRow * tile, numRows * tile, halfScratch);
        copyValues(pairs, valueOffsets);
        multiply(weights, firstRow, numRows, values, tileSums);
    }

    private void copyValues(int[] pairs, int[] valueOffsets) {
        int width = shapes.valueBlockWidth();
        int pairsPerBlock = Kernels.BLOCK_SIZE / 2;
        for (int b = 0; b < valueOffsets.length; b++) {
            if (width == headDim) {
                valueView.put(b * pairsPerBlock * width, pairs, valueOffsets[b], pairsPerBlock * width);
                continue;
            }
            for (int pair = 0; pair < pairsPerBlock; pair++) {
                int from = valueOffsets[b] + pair * headDim;
                int to = (b * pairsPerBlock + pair) * width;
                for (int d = 0; d < headDim; d += width, to += Kernels.TILE_SIZE / 2 * width) {
                    valueView.put(to, pairs, from + d, width);
                }
            }
        }
    }

    private void multiply(ActivationBuffer source, int firstRow, int numRows, PackedPanel panel, float[] target) {
        int width = panel.shape().width();
        int end = firstRow + numRows;
        int row = firstRow;
        while (row < end) {
            int candidate = rowCounts.next(end - row);
            int rows = Math.min(RowCounts.CANDIDATES[candidate], end - row);
            thread.multiply(source, row, candidate, panel);
            thread.readProduct(0, target, row * width, rows * width);
            row += rows;
        }
    }

    /** One call with exactly a candidate's number of rows, whether it is accepted or not. */
    void scoresByCandidate(int candidate, int[] pairs, int[] keyOffsets, float[] scores) {
        copyKeys(pairs, keyOffsets);
        thread.multiply(queries, 0, candidate, keys);
        thread.readProduct(0, scores, 0, RowCounts.CANDIDATES[candidate] * Kernels.TILE_SIZE);
    }

    /** The same of {@link #accumulate}. */
    void accumulateByCandidate(int candidate, float[] source, int[] pairs, int[] valueOffsets, float[] tileSums) {
        weights.put(0, 0, source, 0, RowCounts.CANDIDATES[candidate] * Kernels.TILE_SIZE, halfScratch);
        copyValues(pairs, valueOffsets);
        thread.multiply(weights, 0, candidate, values);
        thread.readProduct(0, tileSums, 0, RowCounts.CANDIDATES[candidate] * headDim);
    }

    @Override
    public void close() {
        thread.close();
        keys.close();
        values.close();
        keyMemory.close();
        valueMemory.close();
        queries.close();
        weights.close();
    }
}
