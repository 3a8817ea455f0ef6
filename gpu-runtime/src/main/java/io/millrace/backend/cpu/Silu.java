package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_DST;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SCRATCHPAD;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SRC;
import static org.bytedeco.dnnl.global.dnnl.dnnl_eltwise_forward_primitive_desc_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_eltwise_swish;
import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_forward_inference;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_get_size;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_attr_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_query_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_execute;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_scratchpad_md;

import java.nio.FloatBuffer;
import org.bytedeco.dnnl.dnnl_exec_arg_t;
import org.bytedeco.dnnl.dnnl_memory;
import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_primitive_attr;
import org.bytedeco.dnnl.dnnl_primitive_desc;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * The library's silu of so many float32 numbers, by itself: the one that it applies to a gate's elements at the end of their
 * product. Used by one thread.
 */
final class Silu implements AutoCloseable {
    private final int count;
    private final dnnl_stream stream;
    private final NativeBuffer values;
    private final FloatBuffer view;
    private final NativeBuffer scratchpadMemory;
    private final dnnl_primitive primitive = new dnnl_primitive();
    private final dnnl_memory memory = new dnnl_memory();
    private final dnnl_memory scratchpad = new dnnl_memory();
    private final dnnl_exec_arg_t arguments = new dnnl_exec_arg_t(3);

    /** @param stream of the thread's */
    Silu(int count, dnnl_stream stream) {
        this.count = count;
        this.stream = stream;
        values = new NativeBuffer(4L * count);
        view = values.asByteBuffer().asFloatBuffer();
        dnnl_memory_desc layout = OneDnn.matrix(1, count, dnnl_f32, count, 1);
        dnnl_primitive_attr attributes = OneDnn.newAttributes();
        dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
        try {
            OneDnn.check(
                    dnnl_eltwise_forward_primitive_desc_create(
                            descriptor,
                            OneDnn.engine(),
                            dnnl_forward_inference,
                            dnnl_eltwise_swish,
                            layout,
                            layout,
                            1f,
                            0f,
                            attributes),
                    "describe silu");
            OneDnn.check(dnnl_primitive_create(primitive, descriptor), "create silu");
            dnnl_memory_desc scratchpadLayout = dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0);
            scratchpadMemory = new NativeBuffer(Math.max(64, dnnl_memory_desc_get_size(scratchpadLayout)));
            OneDnn.check(
                    dnnl_memory_create(scratchpad, scratchpadLayout, OneDnn.engine(), scratchpadMemory.pointerAt(0)),
                    "describe an operand");
            OneDnn.check(
                    dnnl_memory_create(memory, layout, OneDnn.engine(), values.pointerAt(0)), "describe an operand");
        } finally {
            dnnl_primitive_desc_destroy(descriptor);
            dnnl_primitive_attr_destroy(attributes);
            dnnl_memory_desc_destroy(layout);
        }
        arguments.position(0).arg(DNNL_ARG_SRC).memory(memory);
        arguments.position(1).arg(DNNL_ARG_DST).memory(memory);
        arguments.position(2).arg(DNNL_ARG_SCRATCHPAD).memory(scratchpad);
        arguments.position(0);
    }

    int count() {
        return count;
    }

    /** Replaces the first numbers of an array by their silu. */
    void apply(float[] numbers) {
        view.put(0, numbers, 0, count);
        OneDnn.check(dnnl_primitive_execute(primitive, stream, 3, arguments), "compute silu");
        view.get(0, numbers, 0, count);
    }

    @Override
    public void close() {
        dnnl_primitive_destroy(primitive);
        dnnl_memory_destroy(memory);
        dnnl_memory_destroy(scratchpad);
        arguments.deallocate();
        values.close();
        scratchpadMemory.close();
    }
}
