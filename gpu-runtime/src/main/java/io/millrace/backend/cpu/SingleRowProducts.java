package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import io.millrace.kernels.PanelKernels;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * One compute thread's means to multiply a row by itself with panels by a kernel of our own, in place of the matrix library: such a
 * product takes as long as reading the panel, and the kernel reads faster. It adds in the library's order, by the depths
 * that {@link RowProbe} found for the shape, so the bits are the same and it does not matter which of the two computes a
 * panel. With two rows already the library takes no longer. Used by its thread only.
 */
final class SingleRowProducts implements AutoCloseable {
    /**
     * The library's bfloat16 instruction takes numbers and sums below 2^-126 for 0, the kernel does not. Where it could show, sums are far
     * below this, too, and the library computes them.
     */
    private static final int SMALLEST_SUM_BITS = Float.floatToRawIntBits(0x1p-100f);

    /**
     * Tasks until which the kernel gets a few only: before the JVM has compiled it, it takes a hundred times as long as the library
     * does. In the first sixty steps of a request alone it is compiled.
     */
    static final int NUM_WARM_UP_TASKS = 20_000;

    private static final int WARM_UP_INTERVAL = 32;

    /**
     * By how many steps of a row must lead other steps before the kernel gets any task at all. The last sequence of a batch often
     * has a step or two alone, which would take several times as long for nothing. Not so many in a row: between a draft
     * model's steps of a row are some that take up two tokens.
     */
    static final int MIN_LEAD = 8;

    private static final AtomicInteger NUM_TASKS_OF_JVM = new AtomicInteger();

    private final AtomicInteger numTasks; // until the kernel is warm
    private int lead; // of steps of a row over others; not below 0
    private final PanelKernels kernels = PanelKernels.fastest();
    private final dnnl_stream stream;
    private final Map<Integer, Silu> silus = new HashMap<>(); // by count
    private Silu lastSilu;
    private final float[] row; // [depth]
    private final float[] sums; // [width, in whole blocks]
    private final float[] gates; // the same
    private final float[] part; // of a block's sums
    private final short[] halves;
    private boolean isRead;

    /**
     * @param maxDepth of panels
     * @param maxWidth of panels
     * @param stream of the thread's
     */
    SingleRowProducts(int maxDepth, int maxWidth, dnnl_stream stream) {
        this(maxDepth, maxWidth, stream, NUM_TASKS_OF_JVM);
    }

    /**
     * Warms up by itself, for tests.
     *
     * @param numTasks counts the tasks of steps that warm the kernel up
     */
    SingleRowProducts(int maxDepth, int maxWidth, dnnl_stream stream, AtomicInteger numTasks) {
        this.stream = stream;
        this.numTasks = numTasks;
        row = new float[maxDepth];
        sums = new float[maxWidth + PanelBlocks.MAX_WIDTH];
        gates = new float[maxWidth + PanelBlocks.MAX_WIDTH];
        part = new float[PanelBlocks.MAX_WIDTH];
        halves = new short[Math.max(maxDepth, maxWidth)];
    }

    /** Takes note of a step that begins, by its tokens. */
    void beginStep(int numTokens) {
        lead = numTokens == 1 ? Math.min(lead + 1, MIN_LEAD) : Math.max(lead - 1, 0);
    }

    /** Whether to try a task here; what is left to the library comes out the same. */
    boolean takes(int numRows, PackedPanel panel) {
        if (numRows != 1 || panel.shape().sumDepth() == 0) {
            return false;
        }
        if (numTasks.get() >= NUM_WARM_UP_TASKS) {
            return true;
        }
        return lead >= MIN_LEAD && numTasks.incrementAndGet() % WARM_UP_INTERVAL == 0;
    }

    /** Forgets the row: from here on it is another one. */
    void begin() {
        isRead = false;
    }

    /**
     * Multiplies a row with a panel and ends the product in a row of the target, as the shape says; but no gate.
     *
     * @return false if the library must do it
     */
    boolean multiply(
            ActivationBuffer source,
            int sourceRow,
            PackedPanel panel,
            ActivationBuffer target,
            int targetRow,
            int targetColumn) {
        if (!multiply(source, sourceRow, panel, sums)) {
            return false;
        }
        int width = panel.shape().width();
        if (panel.shape().end() == ProductEnd.ADD) {
            target.get(targetRow, targetColumn, gates, 0, width);
            add(sums, 0, gates, width);
        }
        target.put(targetRow, targetColumn, sums, 0, width);
        return true;
    }

    /** The same of the product itself, to an array. */
    boolean multiply(ActivationBuffer source, int sourceRow, PackedPanel panel, float[] target, int targetOffset) {
        if (!multiply(source, sourceRow, panel, sums)) {
            return false;
        }
        System.arraycopy(sums, 0, target, targetOffset, panel.shape().width());
        return true;
    }

    /** The same of silu(row × gate) × (row × up). */
    boolean gate(
            ActivationBuffer source,
            int sourceRow,
            PackedPanel up,
            PackedPanel gate,
            ActivationBuffer target,
            int targetRow,
            int targetColumn) {
        return up.shape().sumDepth() != 0
                && multiply(source, sourceRow, up, sums)
                && gate(source, sourceRow, sums, gate, target, targetRow, targetColumn);
    }

    /** The same where the products with up are given. */
    boolean gate(
            ActivationBuffer source,
            int sourceRow,
            float[] ups,
            PackedPanel gate,
            ActivationBuffer target,
            int targetRow,
            int targetColumn) {
        if (!multiply(source, sourceRow, gate, gates)) {
            return false;
        }
        int width = gate.shape().width();
        if (lastSilu == null || lastSilu.count() != width) {
            lastSilu = silus.computeIfAbsent(width, count -> new Silu(count, stream));
        }
        lastSilu.apply(gates);
        for (int c = 0; c < width; c++) {
            gates[c] *= ups[c];
        }
        target.put(targetRow, targetColumn, gates, 0, width, halves);
        return true;
    }

    private boolean multiply(ActivationBuffer source, int sourceRow, PackedPanel panel, float[] results) {
        MatmulShape shape = panel.shape();
        if (!isRead) {
            read(source, sourceRow, shape.depth());
        }
        for (int column = 0; column < shape.width(); column += shape.blocks().width()) {
            multiplyBlock(panel, column, results);
        }
        if (panel.biasValues() != null) {
            add(results, 0, panel.biasValues(), shape.width());
        }
        return shape.format() == NumberFormat.FLOAT32 || !hasTiny(results, shape.width());
    }

    private void read(ActivationBuffer source, int sourceRow, int depth) {
        isRead = true;
        if (source.format() == NumberFormat.FLOAT32) {
            source.get(sourceRow, 0, row, 0, depth);
            return;
        }
        source.getHalves(sourceRow, halves, depth);
        for (int i = 0; i < depth; i++) {
            // The library's instruction takes what has no exponent for 0.
            row[i] = (halves[i] & 0x7f80) == 0 ? 0f : Float.intBitsToFloat(halves[i] << 16);
        }
    }

    /** As many depths at a time as the library adds up in registers. */
    private void multiplyBlock(PackedPanel panel, int column, float[] results) {
        MatmulShape shape = panel.shape();
        int blockWidth = shape.blocks().width();
        int numColumns = Math.min(blockWidth, (shape.width() - column + Kernels.LANES - 1) & -Kernels.LANES);
        multiplyDepths(panel, column, numColumns, 0, results, column);
        for (int depth = shape.sumDepth(); depth < shape.depth(); depth += shape.sumDepth()) {
            multiplyDepths(panel, column, numColumns, depth, part, 0);
            add(results, column, part, numColumns);
        }
    }

    private void multiplyDepths(
            PackedPanel panel, int column, int numColumns, int depth, float[] results, int resultOffset) {
        MatmulShape shape = panel.shape();
        PanelBlocks blocks = shape.blocks();
        int at = blocks.firstByte(column, depth);
        int bytes = blocks.depthBytes();
        int count = Math.min(shape.sumDepth(), shape.depth() - depth);
        if (blocks.arePairs()) {
            kernels.multiplyPairs(
                    panel.pairs(), at, 2 * bytes, count / 2, row, depth, results, resultOffset, numColumns);
        } else {
            kernels.multiplyDepths(panel.pairs(), at, bytes, count, row, depth, results, resultOffset, numColumns);
        }
    }

    private static void add(float[] to, int offset, float[] numbers, int count) {
        for (int i = 0; i < count; i++) {
            to[offset + i] += numbers[i];
        }
    }

    /** Whether any number is below {@link #SMALLEST_SUM_BITS} but not 0. Without branches, for the compiler's vectors. */
    private static boolean hasTiny(float[] numbers, int count) {
        int signs = 0;
        for (int i = 0; i < count; i++) {
            int magnitude = Float.floatToRawIntBits(numbers[i]) & Integer.MAX_VALUE;
            signs |= magnitude - SMALLEST_SUM_BITS & ~(magnitude - 1);
        }
        return signs < 0;
    }

    @Override
    public void close() {
        silus.values().forEach(Silu::close);
    }
}
