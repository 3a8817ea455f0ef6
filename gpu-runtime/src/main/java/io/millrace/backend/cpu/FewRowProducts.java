package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import io.millrace.kernels.PanelKernels;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * One compute thread's means to multiply few rows with panels by a kernel of our own, in place of the matrix library: with so few
 * rows a product takes as long as reading the panel, and the kernel reads faster. It adds in the library's order, by the
 * depths that {@link RowProbe} found for the shape, so the bits are the same and it does not matter which of the two computes a
 * panel. Used by its thread only.
 */
final class FewRowProducts implements AutoCloseable {
    /** Of more, arithmetic takes longer than reading. */
    static final int MAX_ROWS = 2;

    /**
     * The library's instruction takes numbers and sums below 2^-126 for 0, the kernel does not. Where it could show, sums are far
     * below this, too, and the library computes them.
     */
    private static final int SMALLEST_SUM_BITS = Float.floatToRawIntBits(0x1p-100f);

    /**
     * Tasks until which the kernel gets a few only: before the JVM has compiled it, it takes a hundred times as long as the library
     * does. In the first fifty steps of a request alone it is compiled.
     */
    private static final int NUM_WARM_UP_TASKS = 20_000;

    private static final int WARM_UP_INTERVAL = 32;

    private static final AtomicInteger NUM_TASKS = new AtomicInteger(); // of this JVM, until it is warm

    private final Kernels kernels;
    private final PanelKernels panelKernels = PanelKernels.fastest();
    private final dnnl_stream stream;
    private final Map<Integer, Silu> silus = new HashMap<>(); // by count
    private final float[] rows; // [MAX_ROWS][depth]
    private final float[] sums; // [MAX_ROWS][width, in whole blocks]
    private final float[] gates; // the same
    private final float[] part; // of a block's sums
    private final short[] halves;
    private ActivationBuffer source; // whose rows were read; null if none were

    /**
     * @param maxDepth of panels
     * @param maxWidth of panels
     * @param stream of the thread's
     */
    FewRowProducts(int maxDepth, int maxWidth, Kernels kernels, dnnl_stream stream) {
        this.kernels = kernels;
        this.stream = stream;
        int room = maxWidth + PairBlocks.MAX_WIDTH;
        rows = new float[MAX_ROWS * maxDepth];
        sums = new float[MAX_ROWS * room];
        gates = new float[MAX_ROWS * room];
        part = new float[PairBlocks.MAX_WIDTH];
        halves = new short[Math.max(maxDepth, maxWidth)];
    }

    /** Forgets the rows: they have changed. */
    void begin() {
        source = null;
    }

    /** Whether to try a task here; what is left to the library comes out the same. */
    static boolean takes(int numRows, PackedPanel panel) {
        if (numRows > MAX_ROWS || panel.shape().sumDepth() == 0) {
            return false;
        }
        return NUM_TASKS.get() >= NUM_WARM_UP_TASKS || NUM_TASKS.incrementAndGet() % WARM_UP_INTERVAL == 0;
    }

    /**
     * Multiplies rows with a panel and ends the products in rows of the target; the shape's end is none that needs a tile.
     *
     * @return false if the library must do it
     */
    boolean multiply(
            ActivationBuffer from,
            int firstRow,
            int numRows,
            PackedPanel panel,
            ActivationBuffer target,
            int targetRow,
            int targetColumn) {
        if (!multiply(from, firstRow, numRows, panel, sums)) {
            return false;
        }
        int width = panel.shape().width();
        int stride = stride(panel);
        for (int r = 0; r < numRows; r++) {
            if (panel.shape().end() == ProductEnd.ADD) {
                target.get(targetRow + r, targetColumn, gates, 0, width);
                add(sums, r * stride, gates, 0, width);
            }
            target.put(targetRow + r, targetColumn, sums, r * stride, width);
        }
        return true;
    }

    /** The same of the products themselves, row r to an array from targetOffset + r × targetStride on. */
    boolean multiply(
            ActivationBuffer from,
            int firstRow,
            int numRows,
            PackedPanel panel,
            float[] target,
            int targetOffset,
            int targetStride) {
        if (!multiply(from, firstRow, numRows, panel, sums)) {
            return false;
        }
        for (int r = 0; r < numRows; r++) {
            System.arraycopy(
                    sums,
                    r * stride(panel),
                    target,
                    targetOffset + r * targetStride,
                    panel.shape().width());
        }
        return true;
    }

    /** The same of silu(rows × gate) × (rows × up). */
    boolean gate(
            ActivationBuffer from,
            int firstRow,
            int numRows,
            PackedPanel up,
            PackedPanel gate,
            ActivationBuffer target,
            int targetRow,
            int targetColumn) {
        if (up.shape().sumDepth() == 0
                || !multiply(from, firstRow, numRows, up, sums)
                || !multiply(from, firstRow, numRows, gate, gates)) {
            return false;
        }
        for (int r = 0; r < numRows; r++) {
            int at = r * stride(gate);
            endGate(gate.shape().width(), sums, r * stride(up), at, target, targetRow + r, targetColumn);
        }
        return true;
    }

    /** Ends one row whose products with a gate stand where {@link #gate} leaves them. */
    private void endGate(
            int width, float[] ups, int upsAt, int gatesAt, ActivationBuffer target, int targetRow, int targetColumn) {
        silus.computeIfAbsent(width, count -> new Silu(count, stream)).apply(gates, gatesAt);
        for (int c = 0; c < width; c++) {
            gates[gatesAt + c] *= ups[upsAt + c];
        }
        target.put(targetRow, targetColumn, gates, gatesAt, width, halves);
    }

    /** The end of a gate whose tile is given, for one row; what {@link #gate} makes of two panels. For the probe. */
    boolean gate(
            ActivationBuffer from,
            int row,
            PackedPanel gate,
            float[] tile,
            ActivationBuffer target,
            int targetRow,
            int targetColumn) {
        if (!multiply(from, row, 1, gate, gates)) {
            return false;
        }
        endGate(gate.shape().width(), tile, 0, 0, target, targetRow, targetColumn);
        return true;
    }

    private boolean multiply(ActivationBuffer from, int firstRow, int numRows, PackedPanel panel, float[] results) {
        MatmulShape shape = panel.shape();
        if (source != from) {
            read(from, firstRow, numRows, shape.depth());
        }
        int stride = stride(panel);
        for (int column = 0;
                column < shape.width();
                column += shape.pairBlocks().width()) {
            // All rows for a block: behind the first it comes from a cache.
            for (int r = 0; r < numRows; r++) {
                multiplyBlock(panel, column, r, results, r * stride + column);
            }
        }
        for (int r = 0; r < numRows; r++) {
            if (panel.biasValues() != null) {
                add(results, r * stride, panel.biasValues(), 0, shape.width());
            }
            if (hasTiny(results, r * stride, shape.width())) {
                return false;
            }
        }
        return true;
    }

    /** Between the results of two rows. */
    private static int stride(PackedPanel panel) {
        return panel.shape().pairBlocks().rounded(panel.shape().width());
    }

    /** As many depths at a time as the library adds up in registers. */
    private void multiplyBlock(PackedPanel panel, int column, int row, float[] results, int at) {
        MatmulShape shape = panel.shape();
        PairBlocks blocks = shape.pairBlocks();
        int numColumns = Math.min(blocks.width(), (shape.width() - column + Kernels.LANES - 1) & -Kernels.LANES);
        for (int depth = 0; depth < shape.depth(); depth += shape.sumDepth()) {
            int numPairs = Math.min(shape.sumDepth(), shape.depth() - depth) / 2;
            panelKernels.multiply(
                    panel.pairs(),
                    blocks.firstByte(column) + depth / 2 * blocks.pairBytes(),
                    blocks.pairBytes(),
                    numPairs,
                    rows,
                    row * shape.depth() + depth,
                    depth == 0 ? results : part,
                    depth == 0 ? at : 0,
                    numColumns);
            if (depth > 0) {
                add(results, at, part, 0, numColumns);
            }
        }
    }

    private void read(ActivationBuffer from, int firstRow, int numRows, int depth) {
        for (int r = 0; r < numRows; r++) {
            from.getHalves(firstRow + r, halves, depth);
            for (int i = 0; i < depth; i++) {
                // The library's instruction takes what has no exponent for 0.
                rows[r * depth + i] = (halves[i] & 0x7f80) == 0 ? 0f : Float.intBitsToFloat(halves[i] << 16);
            }
        }
        source = from;
    }

    private static void add(float[] to, int toOffset, float[] numbers, int offset, int count) {
        for (int i = 0; i < count; i++) {
            to[toOffset + i] += numbers[offset + i];
        }
    }

    /** Whether any number is below {@link #SMALLEST_SUM_BITS} but not 0. Without branches, for the compiler's vectors. */
    private static boolean hasTiny(float[] numbers, int offset, int count) {
        int signs = 0;
        for (int i = 0; i < count; i++) {
            int magnitude = Float.floatToRawIntBits(numbers[offset + i]) & Integer.MAX_VALUE;
            signs |= magnitude - SMALLEST_SUM_BITS & ~(magnitude - 1);
        }
        return signs < 0;
    }

    @Override
    public void close() {
        silus.values().forEach(Silu::close);
    }
}
