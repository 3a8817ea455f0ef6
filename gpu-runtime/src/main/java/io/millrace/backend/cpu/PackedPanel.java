package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_FROM;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_TO;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_execute;
import static org.bytedeco.dnnl.global.dnnl.dnnl_reorder_primitive_desc_create;

import io.millrace.kernels.PairMemory;
import java.nio.ByteOrder;
import org.bytedeco.dnnl.dnnl_exec_arg_t;
import org.bytedeco.dnnl.dnnl_memory;
import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_primitive_desc;
import org.bytedeco.dnnl.dnnl_stream;
import org.bytedeco.javacpp.BytePointer;

/**
 * The right operand of a product in oneDNN's packed layout: some neighbouring columns of a weight matrix, read-only after
 * packing and for any thread, or a tile of keys or values.
 */
final class PackedPanel implements AutoCloseable {
    private final MatmulShape shape;
    private final dnnl_memory memory;
    private final dnnl_memory bias;
    private final float[] biasValues;
    private final PairMemory pairs;

    /**
     * Packs a panel.
     *
     * @param rows [width][depth] in the format that the shape's panels are held in: the panel transposed, as checkpoints store it
     * @param bias [width], null where the shape has none
     * @param arena where the packed panel lies; to be closed after the panel
     */
    PackedPanel(MatmulShape shape, NativeBuffer rows, float[] bias, NativeArena arena, dnnl_stream stream) {
        this.shape = shape;
        this.memory = new dnnl_memory();
        this.bias = shape.hasBias() ? packBias(shape, bias, arena) : null;
        this.biasValues = shape.hasBias() ? bias.clone() : null;
        BytePointer place = arena.allocate(shape.packedBytes());
        this.pairs = shape.blocks() == null ? null : viewOf(place, shape.packedBytes());
        try {
            OneDnn.check(
                    dnnl_memory_create(memory, shape.packedLayout(), OneDnn.engine(), place),
                    "describe a packed panel");
            pack(rows, stream);
        } catch (RuntimeException | Error e) {
            close();
            throw e;
        }
    }

    /** Here and below, what was never made is no address, which the library destroys without complaint. */
    private void pack(NativeBuffer rows, dnnl_stream stream) {
        dnnl_memory_desc plain =
                OneDnn.matrix(shape.depth(), shape.width(), shape.heldFormat().dataType(), 1, shape.depth());
        dnnl_memory source = new dnnl_memory();
        dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
        dnnl_primitive reorder = new dnnl_primitive();
        try (dnnl_exec_arg_t arguments = new dnnl_exec_arg_t(2)) {
            OneDnn.check(
                    dnnl_memory_create(source, plain, OneDnn.engine(), rows.pointerAt(0)), "describe a plain panel");
            OneDnn.check(
                    dnnl_reorder_primitive_desc_create(
                            descriptor, plain, OneDnn.engine(), shape.packedLayout(), OneDnn.engine(), null),
                    "describe the packing of " + shape);
            OneDnn.check(dnnl_primitive_create(reorder, descriptor), "create the packing of " + shape);
            arguments.position(0).arg(DNNL_ARG_FROM).memory(source);
            arguments.position(1).arg(DNNL_ARG_TO).memory(memory);
            arguments.position(0);
            OneDnn.check(dnnl_primitive_execute(reorder, stream, 2, arguments), "pack " + shape);
        } finally {
            dnnl_primitive_destroy(reorder);
            dnnl_primitive_desc_destroy(descriptor);
            dnnl_memory_destroy(source);
            dnnl_memory_desc_destroy(plain);
        }
    }

    /** A panel that the caller fills, in the shape's layout. */
    PackedPanel(MatmulShape shape, NativeBuffer panel) {
        this.shape = shape;
        this.memory = new dnnl_memory();
        this.bias = null;
        this.biasValues = null;
        this.pairs = null;
        OneDnn.check(
                dnnl_memory_create(memory, shape.packedLayout(), OneDnn.engine(), panel.pointerAt(0)),
                "describe a panel");
    }

    private static PairMemory viewOf(BytePointer place, long numBytes) {
        BytePointer all = new BytePointer(place);
        all.position(place.position()).limit(place.position() + numBytes);
        return new PairMemory(all.asByteBuffer());
    }

    private static dnnl_memory packBias(MatmulShape shape, float[] bias, NativeArena arena) {
        BytePointer packed = arena.allocate(4L * shape.width());
        packed.limit(packed.position() + 4L * shape.width());
        packed.asByteBuffer().order(ByteOrder.nativeOrder()).asFloatBuffer().put(bias, 0, shape.width());
        dnnl_memory memory = new dnnl_memory();
        dnnl_memory_desc layout = shape.biasLayout();
        try {
            OneDnn.check(dnnl_memory_create(memory, layout, OneDnn.engine(), packed), "describe a bias");
        } finally {
            dnnl_memory_desc_destroy(layout);
        }
        return memory;
    }

    MatmulShape shape() {
        return shape;
    }

    dnnl_memory memory() {
        return memory;
    }

    /** Null where the shape has none. */
    dnnl_memory bias() {
        return bias;
    }

    /** [width], null where the shape has none. */
    float[] biasValues() {
        return biasValues;
    }

    /** What was packed, by {@link MatmulShape#blocks}; null where the caller fills the panel or its layout is another one. */
    PairMemory pairs() {
        return pairs;
    }

    @Override
    public void close() {
        dnnl_memory_destroy(memory);
        if (bias != null) {
            dnnl_memory_destroy(bias);
        }
    }
}
