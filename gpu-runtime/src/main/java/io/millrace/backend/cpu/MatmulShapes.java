package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.StringJoiner;

/** The panel shapes of one model, each probed once. Thread-safe. */
final class MatmulShapes implements AutoCloseable {
    private final NumberFormat format;
    private final Kernels kernels;
    private final boolean multipliesSingleRows;
    private final Map<Key, MatmulShape> shapes = new LinkedHashMap<>();

    private record Key(
            int depth, int width, NumberFormat heldFormat, ProductEnd end, int resultStride, boolean hasBias) {}

    /** @param multipliesSingleRows whether {@link SingleRowProducts} are worth a trial */
    MatmulShapes(NumberFormat format, Kernels kernels, boolean multipliesSingleRows) {
        this.format = format;
        this.multipliesSingleRows = multipliesSingleRows;
        this.kernels = kernels;
    }

    /** Finds a shape, making and probing it if it is new. Compute threads only. */
    synchronized MatmulShape shape(
            int depth, int width, NumberFormat heldFormat, ProductEnd end, int resultStride, boolean hasBias) {
        return shapes.computeIfAbsent(new Key(depth, width, heldFormat, end, resultStride, hasBias), key -> {
            MatmulShape shape = new MatmulShape(depth, width, format, heldFormat, end, resultStride, hasBias);
            try (RowProbe probe = new RowProbe(shape, kernels)) {
                shape.acceptRowCounts(probe.rowCounts());
                if (multipliesSingleRows) {
                    shape.acceptSumDepth(probe.sumDepth());
                }
            }
            return shape;
        });
    }

    /** Which row counts the probe refused, for the log; empty if none. */
    synchronized String refusedRowCounts() {
        StringJoiner all = new StringJoiner("; ");
        for (MatmulShape shape : shapes.values()) {
            String refused = shape.rowCounts().refused();
            if (!refused.isEmpty()) {
                all.add(shape + ": " + refused);
            }
        }
        return all.toString();
    }

    /** The shapes of bfloat16 panels whose single rows only the library multiplies, for the log; empty if none. */
    synchronized String withoutSingleRows() {
        StringJoiner all = new StringJoiner("; ");
        for (MatmulShape shape : shapes.values()) {
            if (multipliesSingleRows && shape.heldFormat() == NumberFormat.BFLOAT16 && shape.sumDepth() == 0) {
                all.add(shape.toString());
            }
        }
        return all.toString();
    }

    @Override
    public synchronized void close() {
        shapes.values().forEach(MatmulShape::close);
        shapes.clear();
    }
}
