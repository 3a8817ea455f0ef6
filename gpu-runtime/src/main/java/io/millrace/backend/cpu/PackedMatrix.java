package io.millrace.backend.cpu;

import io.millrace.model.Tensor;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * A weight matrix [depth, width] as packed column panels. Panels are the unit that threads share out; their widths follow
 * from the matrix alone, so the thread count cannot show in the bits. One or more checkpoint tensors [outputs, depth] stand
 * side by side (q, k and v) or, interleaved, share every panel half and half (gate and up), so that whoever computed a
 * panel holds matching columns of both.
 */
final class PackedMatrix implements AutoCloseable {
    private final int depth;
    private final int width;
    private final int panelWidth;
    private final boolean isInterleaved;
    private final List<Tensor> tensors;
    private final PackedPanel[] panels;
    private RowCounts rowCounts;

    private PackedMatrix(int depth, List<Tensor> tensors, int maxPanelWidth, boolean isInterleaved) {
        this.depth = depth;
        this.tensors = tensors;
        this.isInterleaved = isInterleaved;
        int sum = 0;
        for (Tensor tensor : tensors) {
            sum = Math.addExact(sum, Math.toIntExact(tensor.shape()[0]));
        }
        this.width = sum;
        int granule = isInterleaved ? 32 : 16;
        this.panelWidth = choosePanelWidth(width, maxPanelWidth, granule);
        this.panels = new PackedPanel[(width + panelWidth - 1) / panelWidth];
    }

    /** Tensors side by side. Nothing is read before {@link #packPanel}. */
    static PackedMatrix sideBySide(int depth, int maxPanelWidth, Tensor... tensors) {
        return new PackedMatrix(depth, List.of(tensors), maxPanelWidth, false);
    }

    /** Two tensors of equal shape; a panel's first half is of the first, its second half of the second. */
    static PackedMatrix interleaved(int depth, int maxPanelWidth, Tensor first, Tensor second) {
        return new PackedMatrix(depth, List.of(first, second), maxPanelWidth, true);
    }

    /** Panels of equal width, an even number of them, if the width allows; else a last one that is narrower. */
    static int choosePanelWidth(int width, int maxPanelWidth, int granule) {
        if (width <= maxPanelWidth / 2) {
            return width;
        }
        for (int numPanels = 2; width / numPanels >= maxPanelWidth / 3; numPanels += 2) {
            int candidate = width / numPanels;
            if (width % numPanels == 0 && candidate % granule == 0 && candidate <= maxPanelWidth) {
                return candidate;
            }
        }
        return Math.min(width, maxPanelWidth / granule * granule);
    }

    int depth() {
        return depth;
    }

    int width() {
        return width;
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

    int maxPanelWidth() {
        return panelWidth;
    }

    /** Row counts that every panel accepts. */
    RowCounts rowCounts() {
        return rowCounts;
    }

    /** Reads and packs one panel; distinct panels may be packed by distinct compute threads at once. */
    void packPanel(int index, MatmulShapes shapes, NativeArena arena, MatmulThread thread) {
        int start = panelStart(index);
        int columns = Math.min(panelWidth, width - start);
        MatmulShape shape = shapes.shape(depth, columns);
        int bytes = shape.format().bytes();
        try (NativeBuffer plain = new NativeBuffer((long) columns * depth * bytes)) {
            ByteBuffer view = plain.asByteBuffer();
            short[] halves = new short[depth];
            float[] floats = new float[depth];
            for (int c = 0; c < columns; c++) {
                Tensor tensor = tensorOf(start, columns, c);
                long first = tensorRowOf(start, columns, c) * depth;
                if (shape.format() == NumberFormat.BFLOAT16) {
                    tensor.readBfloat16(first, halves, 0, depth);
                    view.asShortBuffer().put(halves);
                } else {
                    tensor.readFloats(first, floats, 0, depth);
                    view.asFloatBuffer().put(floats);
                }
                view.position(view.position() + depth * bytes);
            }
            panels[index] = new PackedPanel(shape, plain, arena, thread.stream());
        }
    }

    /** Called once after all panels are packed. */
    void finishPacking() {
        rowCounts = panels[0]
                .shape()
                .rowCounts()
                .and(panels[panels.length - 1].shape().rowCounts());
    }

    private Tensor tensorOf(int start, int columns, int column) {
        if (isInterleaved) {
            return tensors.get(column < columns / 2 ? 0 : 1);
        }
        int row = start + column;
        for (Tensor tensor : tensors) {
            if (row < tensor.shape()[0]) {
                return tensor;
            }
            row -= (int) tensor.shape()[0];
        }
        throw new IndexOutOfBoundsException("column " + (start + column) + " of " + width);
    }

    private long tensorRowOf(int start, int columns, int column) {
        if (isInterleaved) {
            return start / 2 + column % (columns / 2);
        }
        int row = start + column;
        for (Tensor tensor : tensors) {
            if (row < tensor.shape()[0]) {
                return row;
            }
            row -= (int) tensor.shape()[0];
        }
        throw new IndexOutOfBoundsException("column " + (start + column) + " of " + width);
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
