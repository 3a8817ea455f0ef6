package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_format_tag_any;
import static org.bytedeco.dnnl.global.dnnl.dnnl_matmul_primitive_desc_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_clone;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_get_size;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_query_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_scratchpad_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_weights_md;

import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_primitive_attr;
import org.bytedeco.dnnl.dnnl_primitive_desc;

/**
 * Products of any number of rows with panels of one shape: [rows, depth] × [depth, width] → float32 [rows, width]. The
 * packed layout of a panel is the one oneDNN prefers at the anchor row count, and all row counts use it. One primitive
 * per candidate row count, made at first use on a compute thread. Thread-safe.
 */
final class MatmulShape implements AutoCloseable {
    private final int depth;
    private final int width;
    private final NumberFormat format;
    private final int rowStride;
    private final boolean adds;
    private final dnnl_memory_desc packedLayout;
    private final long packedBytes;
    private final dnnl_primitive[] primitives = new dnnl_primitive[RowCounts.CANDIDATES.length];
    private final dnnl_memory_desc[] scratchpads = new dnnl_memory_desc[RowCounts.CANDIDATES.length];
    private volatile RowCounts rowCounts;

    /** Panels in the layout that the library prefers. */
    MatmulShape(int depth, int width, NumberFormat format) {
        this(depth, width, format, dnnl_format_tag_any, depth, false);
    }

    /**
     * Panels in a layout of one's own.
     *
     * @param rowStride elements from a row of the left operand to the next
     * @param adds whether products are added to what the result holds, once they are complete
     * @throws IllegalStateException if the library has no product for it
     */
    MatmulShape(int depth, int width, NumberFormat format, int layoutTag, int rowStride, boolean adds) {
        this.depth = depth;
        this.width = width;
        this.format = format;
        this.rowStride = rowStride;
        this.adds = adds;
        dnnl_memory_desc any = OneDnn.matrixOfLayout(depth, width, format.dataType(), layoutTag);
        dnnl_primitive_desc descriptor = describe(RowCounts.ANCHOR, any);
        packedLayout = cloneOf(dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0));
        packedBytes = dnnl_memory_desc_get_size(packedLayout);
        dnnl_primitive_desc_destroy(descriptor);
        dnnl_memory_desc_destroy(any);
    }

    int depth() {
        return depth;
    }

    int width() {
        return width;
    }

    int rowStride() {
        return rowStride;
    }

    NumberFormat format() {
        return format;
    }

    dnnl_memory_desc packedLayout() {
        return packedLayout;
    }

    long packedBytes() {
        return packedBytes;
    }

    /** The accepted row counts; set once by the probe. */
    RowCounts rowCounts() {
        return rowCounts;
    }

    void acceptRowCounts(RowCounts accepted) {
        rowCounts = accepted;
    }

    synchronized dnnl_primitive primitive(int candidate) {
        if (primitives[candidate] == null) {
            dnnl_primitive_desc descriptor = describe(RowCounts.CANDIDATES[candidate], packedLayout);
            dnnl_primitive primitive = new dnnl_primitive();
            OneDnn.check(dnnl_primitive_create(primitive, descriptor), "create the product " + this);
            scratchpads[candidate] = cloneOf(dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0));
            dnnl_primitive_desc_destroy(descriptor);
            primitives[candidate] = primitive;
        }
        return primitives[candidate];
    }

    /** The scratchpad that a call needs; {@link #primitive} was called before. */
    synchronized dnnl_memory_desc scratchpad(int candidate) {
        return scratchpads[candidate];
    }

    private dnnl_primitive_desc describe(int numRows, dnnl_memory_desc weights) {
        dnnl_memory_desc source = OneDnn.matrix(numRows, depth, format.dataType(), rowStride, 1);
        dnnl_memory_desc destination = OneDnn.matrix(numRows, width, dnnl_f32, width, 1);
        dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
        dnnl_primitive_attr attributes = adds ? OneDnn.addingAttributes() : OneDnn.attributes();
        int status = dnnl_matmul_primitive_desc_create(
                descriptor, OneDnn.engine(), source, weights, null, destination, attributes);
        OneDnn.check(status, "describe the product " + this + " for " + numRows + " rows");
        dnnl_memory_desc_destroy(source);
        dnnl_memory_desc_destroy(destination);
        return descriptor;
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
        dnnl_memory_desc_destroy(packedLayout);
    }

    @Override
    public String toString() {
        return depth + "x" + width + " " + format.optionName() + (adds ? ", added" : "");
    }
}
