package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.dnnl_ab;
import static org.bytedeco.dnnl.global.dnnl.dnnl_bf16;
import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_clone;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_create_with_tag;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_get_size;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_destroy;

import org.bytedeco.dnnl.dnnl_memory;
import org.bytedeco.dnnl.dnnl_memory_desc;

/** Small random numbers in memory of their own, which oneDNN's calls read and write. Used by one thread at a time. */
final class Tensor implements AutoCloseable {
    private final Memory buffer;
    private final dnnl_memory memory = new dnnl_memory();

    /** A matrix, row by row. */
    Tensor(int rows, int columns, boolean bfloat16, long seed) {
        this(describe(rows, columns, bfloat16), bfloat16, seed);
    }

    /** In a layout that becomes this tensor's own to destroy. */
    private Tensor(dnnl_memory_desc layout, boolean bfloat16, long seed) {
        this.buffer = new Memory(dnnl_memory_desc_get_size(layout));
        buffer.fillRandom(bfloat16, seed);
        Product.check(dnnl_memory_create(memory, layout, Product.engine(), buffer.pointer()));
        dnnl_memory_desc_destroy(layout);
    }

    /** In a layout of the library's choice, which stays the caller's. */
    static Tensor inLayout(dnnl_memory_desc layout, boolean bfloat16, long seed) {
        dnnl_memory_desc copy = new dnnl_memory_desc();
        Product.check(dnnl_memory_desc_clone(copy, layout));
        return new Tensor(copy, bfloat16, seed);
    }

    static dnnl_memory_desc describe(long rows, long columns, boolean bfloat16) {
        dnnl_memory_desc layout = new dnnl_memory_desc();
        Product.check(dnnl_memory_desc_create_with_tag(
                layout, 2, new long[] {rows, columns}, bfloat16 ? dnnl_bf16 : dnnl_f32, dnnl_ab));
        return layout;
    }

    dnnl_memory memory() {
        return memory;
    }

    @Override
    public void close() {
        dnnl_memory_destroy(memory);
        buffer.close();
    }
}
