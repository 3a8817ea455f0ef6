package io.millrace.backend.cpu;

import io.millrace.model.StorageType;
import io.millrace.model.Tensor;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;

/**
 * A weight matrix [depth, width] as packed column panels, of one or more checkpoint tensors [outputs, depth] side by side (q,
 * k and v). Panels are the unit that threads share out; their widths follow from the matrix alone, so the thread count cannot
 * show in the bits.
 */
final class PackedMatrix implements AutoCloseable {
    /** A result stride of the panel's own width. */
    static final int TOGETHER = 0;

    private static final int PANEL_GRANULE = 16;

    /** Most bytes of a panel in the product's format that is held in another: with its rows, what a core's own cache takes. */
    private static final int MAX_WIDENED_BYTES = 896 << 10;

    private static final int MIN_WIDENED_WIDTH = 64;
    private static final int MAX_WIDENED_WIDTH = 256;

    private final NumberFormat format;
    private final NumberFormat heldFormat;
    private final int depth;
    private final int width;
    private final int panelWidth;
    private final ProductEnd end;
    private final int resultStride;
    private final float[] bias;
    private final List<Tensor> tensors;
    private final PackedPanel[] panels;
    private RowCounts rowCounts;

    /**
     * Nothing is read before {@link #packPanel}.
     *
     * @param format of the products' arithmetic
     * @param heldFormat of panels, see {@link #heldFormat(NumberFormat, Tensor...)}
     * @param resultStride elements of a row of what the products go to; {@link #TOGETHER} where they lie together
     * @param bias [width], null where there is none
     */
    PackedMatrix(
            NumberFormat format,
            NumberFormat heldFormat,
            int depth,
            int maxPanelWidth,
            ProductEnd end,
            int resultStride,
            float[] bias,
            Tensor... tensors) {
        this.format = format;
        this.heldFormat = heldFormat;
        this.depth = depth;
        this.end = end;
        this.resultStride = resultStride;
        this.bias = bias;
        this.tensors = List.of(tensors);
        int sum = 0;
        for (Tensor tensor : tensors) {
            sum = Math.addExact(sum, Math.toIntExact(tensor.shape()[0]));
        }
        this.width = sum;
        this.panelWidth =
                choosePanelWidth(width, isWidened() ? Math.min(maxPanelWidth, maxWidenedWidth()) : maxPanelWidth);
        this.panels = new PackedPanel[(width + panelWidth - 1) / panelWidth];
    }

    /** What matrices of these tensors are held in: as they are stored, if that is exact and the product can take it. */
    static NumberFormat heldFormat(NumberFormat format, Tensor... tensors) {
        boolean areBfloat16 = Arrays.stream(tensors).allMatch(tensor -> tensor.storageType() == StorageType.BF16);
        return areBfloat16 && MatmulShape.canWiden() ? NumberFormat.BFLOAT16 : format;
    }

    private int maxWidenedWidth() {
        int fitting = MAX_WIDENED_BYTES / format.bytes() / depth;
        return Math.max(MIN_WIDENED_WIDTH, Math.min(MAX_WIDENED_WIDTH, fitting));
    }

    /** Panels of equal width, an even number of them, if the width allows; else a last one that is narrower. */
    static int choosePanelWidth(int width, int maxPanelWidth) {
        if (width <= maxPanelWidth / 2) {
            return width;
        }
        for (int numPanels = 2; width / numPanels >= maxPanelWidth / 3; numPanels += 2) {
            int candidate = width / numPanels;
            if (width % numPanels == 0 && candidate % PANEL_GRANULE == 0 && candidate <= maxPanelWidth) {
                return candidate;
            }
        }
        return Math.min(width, maxPanelWidth / PANEL_GRANULE * PANEL_GRANULE);
    }

    /** What is held, whether it is packed yet or not. */
    long numBytes() {
        return (long) depth * width * heldFormat.bytes();
    }

    NumberFormat heldFormat() {
        return heldFormat;
    }

    /** Whether every thread that multiplies with a panel widens it before. */
    boolean isWidened() {
        return heldFormat != format;
    }

    int numPanels() {
        return panels.length;
    }

    PackedPanel panel(int index) {
        return panels[index];
    }

    /** First column of a panel. */
    int panelStart(int index) {
        return index * panelWidth;
    }

    /** Row counts that all of its panels accept. */
    RowCounts rowCounts() {
        return rowCounts;
    }

    /** Reads and packs one panel; distinct panels may be packed by distinct compute threads at once. */
    void packPanel(int index, MatmulShapes shapes, NativeArena arena, MatmulThread thread) {
        int start = panelStart(index);
        int columns = Math.min(panelWidth, width - start);
        int stride = resultStride == TOGETHER ? columns : resultStride;
        MatmulShape shape = shapes.shape(depth, columns, heldFormat, end, stride, bias != null);
        int bytes = heldFormat.bytes();
        try (NativeBuffer plain = new NativeBuffer((long) columns * depth * bytes)) {
            ByteBuffer view = plain.asByteBuffer();
            short[] halves = new short[depth];
            float[] floats = new float[depth];
            for (int c = 0; c < columns; c++) {
                int row = start + c;
                int part = 0;
                while (row >= tensors.get(part).shape()[0]) {
                    row -= (int) tensors.get(part++).shape()[0];
                }
                Tensor tensor = tensors.get(part);
                long first = (long) row * depth;
                if (heldFormat == NumberFormat.BFLOAT16) {
                    tensor.readBfloat16(first, halves, 0, depth);
                    if (!shape.isWidened()) {
                        clearSubnormal(halves);
                    }
                    view.asShortBuffer().put(halves);
                } else {
                    tensor.readFloats(first, floats, 0, depth);
                    view.asFloatBuffer().put(floats);
                }
                view.position(view.position() + depth * bytes);
            }
            float[] ofPanel = bias == null ? null : Arrays.copyOfRange(bias, start, start + columns);
            panels[index] = new PackedPanel(shape, plain, ofPanel, arena, thread.stream());
        }
    }

    /** The library's bfloat16 products take such numbers for 0, our own would not. */
    private static void clearSubnormal(short[] halves) {
        for (int i = 0; i < halves.length; i++) {
            halves[i] = (halves[i] & 0x7f80) == 0 ? (short) (halves[i] & 0x8000) : halves[i];
        }
    }

    /** Called once after all panels are packed. */
    void finishPacking() {
        rowCounts = panels[0]
                .shape()
                .rowCounts()
                .and(panels[panels.length - 1].shape().rowCounts());
    }

    @Override
    public void close() {
        for (PackedPanel panel : panels) {
            if (panel != null) {
                panel.close();
            }
        }
    }
}
