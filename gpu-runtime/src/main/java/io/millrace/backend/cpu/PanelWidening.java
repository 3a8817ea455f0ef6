package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_FROM;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_TO;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_get_size;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_execute;

import java.util.IdentityHashMap;
import java.util.Map;
import org.bytedeco.dnnl.dnnl_exec_arg_t;
import org.bytedeco.dnnl.dnnl_memory;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * One compute thread's copy of the panel that it multiplies with, in the product's format where panels are held in a narrower
 * one. The copy stays in the core's cache until the product has read it, so that memory gives half as many bytes as it would for
 * panels in the product's format. Used by its thread only.
 */
final class PanelWidening implements AutoCloseable {
    private final dnnl_stream stream;
    private final Map<MatmulShape, Copy> copies = new IdentityHashMap<>();
    private NativeBuffer memory = new NativeBuffer(64); // until the first panel; then on huge pages, like panels
    private PackedPanel widened; // what the memory holds

    /** @param stream of the thread's */
    PanelWidening(dnnl_stream stream) {
        this.stream = stream;
    }

    /** A panel as its product takes it, valid until the next call. */
    dnnl_memory widen(PackedPanel panel) {
        Copy copy = copies.get(panel.shape());
        if (copy == null) {
            copy = newCopy(panel.shape());
        }
        if (panel != widened) {
            copy.fill(panel, stream);
            widened = panel;
        }
        return copy.memory;
    }

    private Copy newCopy(MatmulShape shape) {
        long numBytes = dnnl_memory_desc_get_size(shape.productLayout());
        if (numBytes > memory.sizeBytes()) {
            close();
            memory = new NativeBuffer(Math.max(numBytes, HugePages.SIZE_BYTES));
            widened = null;
        }
        Copy copy = new Copy(shape, memory);
        copies.put(shape, copy);
        return copy;
    }

    @Override
    public void close() {
        copies.values().forEach(Copy::close);
        copies.clear();
        memory.close();
    }

    /** What widening panels of one shape takes. */
    private static final class Copy {
        private final dnnl_primitive primitive;
        private final dnnl_memory memory = new dnnl_memory();
        private final dnnl_exec_arg_t arguments = new dnnl_exec_arg_t(2);

        Copy(MatmulShape shape, NativeBuffer place) {
            primitive = shape.widening();
            OneDnn.check(
                    dnnl_memory_create(memory, shape.productLayout(), OneDnn.engine(), place.pointerAt(0)),
                    "describe a widened panel");
            arguments.position(0).arg(DNNL_ARG_FROM);
            arguments.position(1).arg(DNNL_ARG_TO).memory(memory);
            arguments.position(0);
        }

        void fill(PackedPanel panel, dnnl_stream stream) {
            arguments.memory(panel.memory());
            int status = dnnl_primitive_execute(primitive, stream, 2, arguments);
            if (status != 0) {
                OneDnn.check(status, "widen a panel of " + panel.shape());
            }
        }

        void close() {
            dnnl_memory_destroy(memory);
            arguments.deallocate();
        }
    }
}
