package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a16b2a;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a32b2a;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a48b2a;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a64b2a;

import io.millrace.kernels.Kernels;

/**
 * The two products of attention as the matrix library computes them: bfloat16 queries with keys, [rows][head dim] × [head
 * dim][one, two or four tiles], and weights of one tile with values, [rows][tile] × [tile][head dim], added to the rows'
 * accumulators. Usable only where they give exactly the bits of {@link Kernels}, which is tried when a model is loaded:
 * AVX-512's VDPBF16PS adds the odd product of a pair, then the even one, each rounded, and the kernels do as it does. Other
 * instructions (AMX) add in another order; there the kernels do all the work. Thread-safe after the probe.
 */
final class AttentionShapes implements AutoCloseable {
    private final int headDim;
    private final int valueBlockWidth;
    private final String remark;
    private final MatmulShape[] keys = new MatmulShape[AttentionProducts.MAX_TILES + 1]; // by number of tiles
    private final MatmulShape[] values = new MatmulShape[4]; // see values(boolean, boolean)
    private RowCounts rowCounts;

    private AttentionShapes(int headDim, NumberFormat format, Kernels kernels) {
        this.headDim = headDim;
        this.valueBlockWidth = headDim % 64 == 0 ? 64 : headDim % 48 == 0 ? 48 : 32;
        this.remark = format == NumberFormat.BFLOAT16 ? tryOut(kernels) : "";
    }

    /** Tries the products out, on the calling compute thread. */
    static AttentionShapes probe(int headDim, NumberFormat format, Kernels kernels) {
        return new AttentionShapes(headDim, format, kernels);
    }

    private String tryOut(Kernels kernels) {
        String slow = "attention's products go through Millrace's own kernels, which take longer: ";
        if (headDim % 32 != 0) {
            return slow + "the matrix library wants heads of a multiple of 32 elements, the model's have " + headDim;
        }
        if (!OneDnn.hasBfloat16()) {
            return slow + "this CPU does not multiply bfloat16 natively";
        }
        try {
            for (int tiles = 1; tiles <= AttentionProducts.MAX_TILES; tiles *= 2) {
                int width = tiles * Kernels.TILE_SIZE;
                keys[tiles] = new MatmulShape(
                        headDim, width, NumberFormat.BFLOAT16, dnnl_BA16a16b2a, headDim, ProductEnd.STORE);
            }
            for (int i = 0; i < values.length; i++) {
                ProductEnd end = i % 2 == 0 ? ProductEnd.STORE : ProductEnd.ADD;
                int rowStride = (i < 2 ? 1 : AttentionProducts.MAX_TILES) * Kernels.TILE_SIZE;
                values[i] = new MatmulShape(
                        Kernels.TILE_SIZE, headDim, NumberFormat.BFLOAT16, valueLayout(), rowStride, end);
            }
        } catch (IllegalStateException e) {
            close();
            return slow + e.getMessage();
        }
        rowCounts = new AttentionProbe(this, kernels).probe();
        if (rowCounts == null) {
            close();
            return slow + "on this CPU (" + OneDnn.instructionSet() + ") the matrix library's have other bits;"
                    + " ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 selects instructions whose bits agree, if the CPU has them,"
                    + " for weights too";
        }
        String refused = rowCounts.refused();
        return refused.isEmpty()
                ? ""
                : "row counts whose bits differ in attention, and which are rounded up: " + refused;
    }

    private int valueLayout() {
        return switch (valueBlockWidth) {
            case 64 -> dnnl_BA16a64b2a;
            case 48 -> dnnl_BA16a48b2a;
            default -> dnnl_BA16a32b2a;
        };
    }

    /** Why they, or some row counts, are not usable; empty where all are, or where nobody wants them. */
    String remark() {
        return remark;
    }

    boolean areUsable() {
        return rowCounts != null;
    }

    int headDim() {
        return headDim;
    }

    /** Columns that lie together in a panel of values. */
    int valueBlockWidth() {
        return valueBlockWidth;
    }

    /** The product with the keys of one, two or four tiles. */
    MatmulShape keys(int numTiles) {
        return keys[numTiles];
    }

    /**
     * The product with the values of a tile.
     *
     * @param ofSeveral whether rows hold the weights of several tiles
     * @param adds whether the product is added to the accumulators, or begins them
     */
    MatmulShape values(boolean ofSeveral, boolean adds) {
        return values[(ofSeveral ? 2 : 0) + (adds ? 1 : 0)];
    }

    /** Row counts at which all products give the kernels' bits. */
    RowCounts rowCounts() {
        return rowCounts;
    }

    @Override
    public void close() {
        for (int tiles = 1; tiles < keys.length; tiles++) {
            if (keys[tiles] != null) {
                keys[tiles].close();
                keys[tiles] = null;
            }
        }
        for (int i = 0; i < values.length; i++) {
            if (values[i] != null) {
                values[i].close();
                values[i] = null;
            }
        }
    }
}
