package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a32b;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a48b;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a48b2a;
import static org.bytedeco.dnnl.global.dnnl.dnnl_BA16a64b;
import static org.bytedeco.dnnl.global.dnnl.dnnl_binary_mul;
import static org.bytedeco.dnnl.global.dnnl.dnnl_eltwise_swish;
import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_format_tag_any;
import static org.bytedeco.dnnl.global.dnnl.dnnl_matmul_primitive_desc_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_clone;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_get_size;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_append_binary;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_append_eltwise;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_append_sum;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_attr_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_attr_set_post_ops;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_query_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_scratchpad_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_weights_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_reorder_primitive_desc_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_success;

import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_post_ops;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_primitive_attr;
import org.bytedeco.dnnl.dnnl_primitive_desc;

/**
 * Products of any number of rows with panels of one shape: [rows, depth] × [depth, width] → [rows, width], which go to rows
 * a stride apart by one {@link ProductEnd}. All row counts use the same layout of a panel. Panels may be held in a narrower
 * format than the product takes; then they lie in the same way, and are widened before it. One primitive per candidate row
 * count, made at first use on a compute thread. Thread-safe.
 */
final class MatmulShape implements AutoCloseable {
    private final int depth;
    private final int width;
    private final NumberFormat format;
    private final NumberFormat heldFormat;
    private final int rowStride;
    private final ProductEnd end;
    private final int resultStride;
    private final boolean hasBias;
    private final dnnl_memory_desc productLayout;
    private final dnnl_memory_desc packedLayout; // the same where panels are held in the product's format
    private final PanelBlocks blocks;
    private final dnnl_primitive[] primitives = new dnnl_primitive[RowCounts.CANDIDATES.length];
    private final dnnl_memory_desc[] scratchpads = new dnnl_memory_desc[RowCounts.CANDIDATES.length];
    private dnnl_primitive widening;
    private volatile RowCounts rowCounts;
    private volatile int sumDepth;

    /** Panels held in the product's own format. */
    MatmulShape(int depth, int width, NumberFormat format, ProductEnd end, int resultStride, boolean hasBias) {
        this(depth, width, format, format, end, resultStride, hasBias);
    }

    /**
     * Panels in the layout that the library prefers, unless that fills up their last columns to a block and another one need not:
     * what is filled up is read, too.
     *
     * @param format of rows and of the product's arithmetic
     * @param heldFormat of panels: the same, or bfloat16 where {@link #canWiden}
     * @param resultStride elements from one row of the result to the next
     * @param hasBias whether a panel has a number for each of its columns that is added to the products
     */
    MatmulShape(
            int depth,
            int width,
            NumberFormat format,
            NumberFormat heldFormat,
            ProductEnd end,
            int resultStride,
            boolean hasBias) {
        this(depth, width, format, heldFormat, layoutTag(width, format), depth, end, resultStride, hasBias);
    }

    /** Whether panels may be held as bfloat16 where the arithmetic is float32: their layout must be known, and the same in both. */
    static boolean canWiden() {
        return OneDnn.hasAvx512();
    }

    private static int layoutTag(int width, NumberFormat format) {
        if (format == NumberFormat.FLOAT32) {
            return OneDnn.hasAvx512() ? tagOfLeastFilling(width) : dnnl_format_tag_any;
        }
        if (!OneDnn.instructionSet().equals("avx512_bf16")) {
            return dnnl_format_tag_any; // for AMX, blocks of 48 may be none or slow
        }
        return width % 64 != 0 && width % 48 == 0 ? dnnl_BA16a48b2a : dnnl_format_tag_any;
    }

    private static int tagOfLeastFilling(int width) {
        int of64 = -width & 63;
        int of48 = (48 - width % 48) % 48;
        int of32 = -width & 31;
        if (of64 <= Math.min(of48, of32)) {
            return dnnl_BA16a64b;
        }
        return of48 <= of32 ? dnnl_BA16a48b : dnnl_BA16a32b;
    }

    /**
     * Panels in a layout of one's own, whose products lie together.
     *
     * @param rowStride elements from a row of the left operand to the next
     * @throws IllegalStateException if the library has no product for it
     */
    MatmulShape(int depth, int width, NumberFormat format, int layoutTag, int rowStride, ProductEnd end) {
        this(depth, width, format, format, layoutTag, rowStride, end, width, false);
    }

    private MatmulShape(
            int depth,
            int width,
            NumberFormat format,
            NumberFormat heldFormat,
            int layoutTag,
            int rowStride,
            ProductEnd end,
            int resultStride,
            boolean hasBias) {
        this.depth = depth;
        this.width = width;
        this.format = format;
        this.heldFormat = heldFormat;
        this.rowStride = rowStride;
        this.end = end;
        this.resultStride = resultStride;
        this.hasBias = hasBias;
        dnnl_memory_desc any = OneDnn.matrixOfLayout(depth, width, format.dataType(), layoutTag);
        try {
            dnnl_primitive_desc descriptor = describe(RowCounts.ANCHOR, any);
            productLayout = cloneOf(dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0));
            packedLayout = isWidened()
                    ? OneDnn.matrixOfLayout(depth, width, heldFormat.dataType(), layoutTag)
                    : cloneOf(productLayout);
            blocks = heldFormat == NumberFormat.BFLOAT16 ? blocksFor(format, packedLayout) : null;
            dnnl_primitive_desc_destroy(descriptor);
        } finally {
            dnnl_memory_desc_destroy(any);
        }
    }

    /** Null where our own kernels have no such product. */
    private static PanelBlocks blocksFor(NumberFormat format, dnnl_memory_desc layout) {
        PanelBlocks blocks = PanelBlocks.of(layout);
        return blocks != null && blocks.arePairs() == (format == NumberFormat.BFLOAT16) ? blocks : null;
    }

    int depth() {
        return depth;
    }

    int width() {
        return width;
    }

    /** Of rows and of the product's arithmetic. */
    NumberFormat format() {
        return format;
    }

    /** Of panels. */
    NumberFormat heldFormat() {
        return heldFormat;
    }

    /** Whether panels are held in a narrower format than the product takes. */
    boolean isWidened() {
        return heldFormat != format;
    }

    int rowStride() {
        return rowStride;
    }

    ProductEnd end() {
        return end;
    }

    int resultStride() {
        return resultStride;
    }

    boolean hasBias() {
        return hasBias;
    }

    /** Format of what a product leaves. */
    NumberFormat resultFormat() {
        return end == ProductEnd.GATE ? format : NumberFormat.FLOAT32;
    }

    /** Where a product of so many rows goes. */
    dnnl_memory_desc resultLayout(int numRows) {
        return OneDnn.matrix(numRows, width, resultFormat().dataType(), resultStride, 1);
    }

    /** The thread's tile, whose rows must stand like the result's. */
    dnnl_memory_desc tileLayout(int numRows) {
        return OneDnn.matrix(numRows, width, dnnl_f32, resultStride, 1);
    }

    /** A number for each column. */
    dnnl_memory_desc biasLayout() {
        return OneDnn.matrix(1, width, dnnl_f32, width, 1);
    }

    /** Of a panel as it is held. */
    dnnl_memory_desc packedLayout() {
        return packedLayout;
    }

    long packedBytes() {
        return dnnl_memory_desc_get_size(packedLayout);
    }

    /** Of a panel as the product takes it. */
    dnnl_memory_desc productLayout() {
        return productLayout;
    }

    /** The accepted row counts; set once by the probe. */
    RowCounts rowCounts() {
        return rowCounts;
    }

    void acceptRowCounts(RowCounts accepted) {
        rowCounts = accepted;
    }

    /** How packed panels lie, if our own kernels know to multiply with them; else null. */
    PanelBlocks blocks() {
        return blocks;
    }

    /** How many depths the library adds up before it adds the sum to those before; 0 if that is not known. */
    int sumDepth() {
        return sumDepth;
    }

    /** Set once, by the probe. */
    void acceptSumDepth(int depths) {
        sumDepth = depths;
    }

    synchronized dnnl_primitive primitive(int candidate) {
        if (primitives[candidate] == null) {
            dnnl_primitive_desc descriptor = describe(RowCounts.CANDIDATES[candidate], productLayout);
            dnnl_primitive primitive = new dnnl_primitive();
            try {
                OneDnn.check(dnnl_primitive_create(primitive, descriptor), "create the product " + this);
                scratchpads[candidate] = cloneOf(dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0));
            } finally {
                dnnl_primitive_desc_destroy(descriptor);
            }
            primitives[candidate] = primitive;
        }
        return primitives[candidate];
    }

    /** From the packed to the product's layout. Needs no scratchpad: it goes from element to element. */
    synchronized dnnl_primitive widening() {
        if (widening == null) {
            dnnl_primitive_attr attributes = OneDnn.newAttributes();
            dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
            dnnl_primitive primitive = new dnnl_primitive();
            try {
                OneDnn.check(
                        dnnl_reorder_primitive_desc_create(
                                descriptor, packedLayout, OneDnn.engine(), productLayout, OneDnn.engine(), attributes),
                        "describe the widening of " + this);
                long scratchpadBytes = dnnl_memory_desc_get_size(
                        dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0));
                if (scratchpadBytes > 0) {
                    throw new IllegalStateException(
                            "oneDNN wants " + scratchpadBytes + " bytes of scratchpad to widen panels of " + this);
                }
                OneDnn.check(dnnl_primitive_create(primitive, descriptor), "create the widening of " + this);
            } finally {
                dnnl_primitive_desc_destroy(descriptor);
                dnnl_primitive_attr_destroy(attributes);
            }
            widening = primitive;
        }
        return widening;
    }

    /** The scratchpad that a call needs; {@link #primitive} was called before. */
    synchronized dnnl_memory_desc scratchpad(int candidate) {
        return scratchpads[candidate];
    }

    private dnnl_primitive_desc describe(int numRows, dnnl_memory_desc weights) {
        dnnl_primitive_attr attributes = attributes(numRows);
        dnnl_memory_desc source = OneDnn.matrix(numRows, depth, format.dataType(), rowStride, 1);
        dnnl_memory_desc bias = hasBias ? biasLayout() : null;
        dnnl_memory_desc destination = resultLayout(numRows);
        dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
        int status = dnnl_matmul_primitive_desc_create(
                descriptor, OneDnn.engine(), source, weights, bias, destination, attributes);
        dnnl_primitive_attr_destroy(attributes);
        dnnl_memory_desc_destroy(source);
        dnnl_memory_desc_destroy(destination);
        if (hasBias) {
            dnnl_memory_desc_destroy(bias);
        }
        OneDnn.check(status, "describe the product " + this + " for " + numRows + " rows");
        return descriptor;
    }

    private dnnl_primitive_attr attributes(int numRows) {
        dnnl_primitive_attr attributes = OneDnn.newAttributes();
        dnnl_post_ops last = new dnnl_post_ops();
        int status = dnnl_post_ops_create(last);
        if (status == dnnl_success) {
            status = appendEnd(last, numRows);
            if (status == dnnl_success) {
                status = dnnl_primitive_attr_set_post_ops(attributes, last);
            }
            dnnl_post_ops_destroy(last);
        }
        if (status != dnnl_success) {
            dnnl_primitive_attr_destroy(attributes);
        }
        OneDnn.check(status, "set what ends the product " + this);
        return attributes;
    }

    /** Returns the library's status. */
    private int appendEnd(dnnl_post_ops last, int numRows) {
        if (end == ProductEnd.STORE) {
            return dnnl_success;
        }
        if (end == ProductEnd.ADD) {
            return dnnl_post_ops_append_sum(last, 1f, 0, dnnl_f32);
        }
        int status = dnnl_post_ops_append_eltwise(last, dnnl_eltwise_swish, 1f, 0f);
        if (status != dnnl_success) {
            return status;
        }
        dnnl_memory_desc tile = tileLayout(numRows);
        status = dnnl_post_ops_append_binary(last, dnnl_binary_mul, tile);
        dnnl_memory_desc_destroy(tile);
        return status;
    }

    private static dnnl_memory_desc cloneOf(dnnl_memory_desc original) {
        dnnl_memory_desc copy = new dnnl_memory_desc();
        OneDnn.check(dnnl_memory_desc_clone(copy, original), "copy a matrix description");
        return copy;
    }

    @Override
    public synchronized void close() {
        for (int i = 0; i < primitives.length; i++) {
            if (primitives[i] != null) {
                dnnl_primitive_destroy(primitives[i]);
                dnnl_memory_desc_destroy(scratchpads[i]);
            }
        }
        if (widening != null) {
            dnnl_primitive_destroy(widening);
        }
        dnnl_memory_desc_destroy(productLayout);
        dnnl_memory_desc_destroy(packedLayout);
    }

    @Override
    public String toString() {
        return depth + "x" + width + " " + format.optionName()
                + (isWidened() ? " of " + heldFormat.optionName() : "") + (end == ProductEnd.STORE ? "" : " " + end)
                + " (result stride " + resultStride + (hasBias ? ", with bias)" : ")");
    }
}
