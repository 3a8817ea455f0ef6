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
 * The packed layout that oneDNN calls BA16a64b2a, or one with another number of columns: blocks of columns one after the other, in
 * each of them [pairs of depths][columns][2].
 *
 * @param width columns of a block, the last one filled up
 * @param bytes of a block
 */
record PairBlocks(int width, int bytes) {
    static final int MAX_WIDTH = 64;

    private static final int DEPTHS_PER_BLOCK = 32;

    /** Null if a layout is another one. */
    static PairBlocks of(dnnl_memory_desc layout, NumberFormat format) {
        try (IntPointer count = new IntPointer(1);
                PointerPointer<LongPointer> values = new PointerPointer<>(1)) {
            OneDnn.check(dnnl_memory_desc_query(layout, dnnl_query_inner_nblks_s32, count), "query a layout");
            if (format != NumberFormat.BFLOAT16 || count.get() != 3) {
                return null;
            }
            LongPointer blocks = query(layout, dnnl_query_inner_blks, values);
            LongPointer dimensions = query(layout, dnnl_query_inner_idxs, values);
            LongPointer strides = query(layout, dnnl_query_strides, values);
            long width = blocks.get(1);
            boolean arePairs = blocks.get(0) * 2 == DEPTHS_PER_BLOCK
                    && blocks.get(2) == 2
                    && dimensions.get(0) == 0
                    && dimensions.get(1) == 1
                    && dimensions.get(2) == 0
                    && strides.get(0) == DEPTHS_PER_BLOCK * width
                    && width % 16 == 0
                    && width <= MAX_WIDTH;
            return arePairs ? new PairBlocks((int) width, Math.toIntExact(strides.get(1) * format.bytes())) : null;
        }
    }

    private static LongPointer query(dnnl_memory_desc layout, int what, PointerPointer<LongPointer> values) {
        OneDnn.check(dnnl_memory_desc_query(layout, what, values), "query a layout");
        return values.get(LongPointer.class, 0);
    }

    /** Bytes from one pair of depths to the next. */
    int pairBytes() {
        return width * Integer.BYTES;
    }

    /** Columns of as many whole blocks as so many columns take. */
    int rounded(int numColumns) {
        return (numColumns + width - 1) / width * width;
    }

    /** Where a block begins that a column is the first of. */
    int firstByte(int column) {
        return column / width * bytes;
    }
}
