package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a16b2a;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a32b2a;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a48b2a;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a64b2a;

import io.millrace.kernels.Kernels;

/**
 * The two products of attention as the matrix library computes them: bfloat16 queries with keys, [rows][head dim] × [head
 * dim][tiles], and weights with values, [rows][tiles] × [tiles][head dim], stored or added to the rows' accumulators; up to a
 * group of tiles each. Usable only where they give exactly the bits of {@link Kernels}, which is tried when a model is loaded:
 * AVX-512's VDPBF16PS adds the odd product of a pair, then the even one, each rounded, and the kernels do as it does. Other
 * instructions (AMX) add in another order; there the kernels do all the work. Thread-safe after the probe.
 */
final class AttentionShapes implements AutoCloseable {
    private final int headDim;
    private final int valueBlockWidth;
    private final String remark;
    private final MatmulShape[] keys = new MatmulShape[AttentionProducts.MAX_TILES + 1]; // by number of tiles
    private final MatmulShape[] begun = new MatmulShape[AttentionProducts.MAX_TILES + 1]; // products of values, stored
    private final MatmulShape[] added = new MatmulShape[AttentionProducts.MAX_TILES + 1]; // the same, added
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
            for (int tiles = 1; tiles <= AttentionProducts.MAX_TILES; tiles++) {
                int width = tiles * Kernels.TILE_SIZE;
                keys[tiles] = new MatmulShape(
                        headDim, width, NumberFormat.BFLOAT16, dnnl_BA16a16b2a, headDim, ProductEnd.STORE);
                begun[tiles] = values(width, ProductEnd.STORE);
                added[tiles] = values(width, ProductEnd.ADD);
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

    private MatmulShape values(int depth, ProductEnd end) {
        int rowStride = AttentionProducts.MAX_TILES * Kernels.TILE_SIZE;
        return new MatmulShape(depth, headDim, NumberFormat.BFLOAT16, valueLayout(), rowStride, end);
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

    /** The product with the keys of so many tiles. */
    MatmulShape keys(int numTiles) {
        return keys[numTiles];
    }

    /**
     * The product with the values of so many tiles.
     *
     * @param adds whether the product is added to what is there, or stored
     */
    MatmulShape values(int numTiles, boolean adds) {
        return adds ? added[numTiles] : begun[numTiles];
    }

    /** Row counts at which all products give the kernels' bits. */
    RowCounts rowCounts() {
        return rowCounts;
    }

    @Override
    public void close() {
        for (MatmulShape[] shapes : new MatmulShape[][] {keys, begun, added}) {
            for (int tiles = 1; tiles < shapes.length; tiles++) {
                if (shapes[tiles] != null) {
                    shapes[tiles].close();
                    shapes[tiles] = null;
                }
            }
        }
    }
}
