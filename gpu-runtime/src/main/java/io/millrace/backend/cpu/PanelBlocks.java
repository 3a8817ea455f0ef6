package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_query;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_inner_blks;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_inner_idxs;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_inner_nblks_s32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_strides;

import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.PointerPointer;

/**
 * How bfloat16 panels lie that our own kernels can read: blocks of columns one after the other, in each of them [pairs of
 * depths][columns][2], which oneDNN calls BA16a64b2a, or [depths][columns], BA16a64b; or with another number of columns.
 *
 * @param width columns of a block, the last one filled up
 * @param bytes of a block
 * @param arePairs whether of pairs of depths
 */
record PanelBlocks(int width, int bytes, boolean arePairs) {
    static final int MAX_WIDTH = 64;

    /** What a vector of pairs of columns takes. */
    private static final int MIN_WIDTH_OF_DEPTHS = 32;

    private static final int DEPTHS_PER_STEP = 16;

    /** Null if a layout of bfloat16 numbers is another one. */
    static PanelBlocks of(dnnl_memory_desc layout) {
        try (IntPointer count = new IntPointer(1);
                PointerPointer<LongPointer> values = new PointerPointer<>(1)) {
            OneDnn.check(dnnl_memory_desc_query(layout, dnnl_query_inner_nblks_s32, count), "query a layout");
            boolean arePairs = count.get() == 3;
            if (!arePairs && count.get() != 2) {
                return null;
            }
            LongPointer blocks = query(layout, dnnl_query_inner_blks, values);
            LongPointer dimensions = query(layout, dnnl_query_inner_idxs, values);
            LongPointer strides = query(layout, dnnl_query_strides, values);
            int depths = arePairs ? 2 * DEPTHS_PER_STEP : DEPTHS_PER_STEP;
            long width = blocks.get(1);
            boolean isKnown = blocks.get(0) == DEPTHS_PER_STEP
                    && dimensions.get(0) == 0
                    && dimensions.get(1) == 1
                    && (!arePairs || blocks.get(2) == 2 && dimensions.get(2) == 0)
                    && (arePairs || width >= MIN_WIDTH_OF_DEPTHS)
                    && strides.get(0) == depths * width
                    && width % 16 == 0
                    && width <= MAX_WIDTH;
            int bytes = Math.toIntExact(strides.get(1) * Short.BYTES);
            return isKnown ? new PanelBlocks((int) width, bytes, arePairs) : null;
        }
    }

    private static LongPointer query(dnnl_memory_desc layout, int what, PointerPointer<LongPointer> values) {
        OneDnn.check(dnnl_memory_desc_query(layout, what, values), "query a layout");
        return values.get(LongPointer.class, 0);
    }

    /** Bytes of one depth; of a pair of depths, twice as many. */
    int depthBytes() {
        return width * Short.BYTES;
    }

    /** Where a depth, or a pair from an even one on, begins in the block that a column is the first of. */
    int firstByte(int column, int depth) {
        return column / width * bytes + depth * depthBytes();
    }
}
