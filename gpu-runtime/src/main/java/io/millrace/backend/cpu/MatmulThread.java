package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_DST;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SCRATCHPAD;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SRC;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_WEIGHTS;
import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_get_size;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_set_data_handle;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_execute;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_default_flags;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_destroy;

import java.nio.FloatBuffer;
import java.util.IdentityHashMap;
import java.util.Map;
import org.bytedeco.dnnl.dnnl_exec_arg_t;
import org.bytedeco.dnnl.dnnl_memory;
import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_stream;
import org.bytedeco.javacpp.BytePointer;

/**
 * One compute thread's means to run matrix products: a stream, a result tile, and the prepared arguments of every shape
 * and row count it has met. Used by its thread only (closed by any once the thread is done with it). After the first call
 * of a shape and row count nothing is allocated.
 */
final class MatmulThread implements AutoCloseable {
    private final dnnl_stream stream = new dnnl_stream();
    private final Map<MatmulShape, Call[]> calls = new IdentityHashMap<>();
    private final Map<NativeBuffer, BytePointer> pointers = new IdentityHashMap<>();
    private final NativeBuffer tileMemory;
    private final FloatBuffer tileView;

    /** @param maxTileElements most elements of a product, rows rounded up */
    MatmulThread(int maxTileElements) {
        OneDnn.check(dnnl_stream_create(stream, OneDnn.engine(), dnnl_stream_default_flags), "create a stream");
        tileMemory = new NativeBuffer(4L * maxTileElements);
        tileView = tileMemory.asByteBuffer().asFloatBuffer();
    }

    dnnl_stream stream() {
        return stream;
    }

    /** Copies neighbouring elements of the last product, [rows][panel width]. */
    void readProduct(int firstElement, float[] target, int offset, int numElements) {
        tileView.get(firstElement, target, offset, numElements);
    }

    /** Multiplies the candidate's number of rows from firstRow on with a panel; see {@link #readProduct}. */
    void multiply(ActivationBuffer source, int firstRow, int candidate, PackedPanel panel) {
        multiply(source, firstRow, 0, candidate, panel, tileMemory, 0);
    }

    /** The same of columns from firstColumn on, into memory of the caller's, [rows][panel width] of float32 from an offset on. */
    void multiply(
            ActivationBuffer source,
            int firstRow,
            int firstColumn,
            int candidate,
            PackedPanel panel,
            NativeBuffer result,
            long resultOffsetBytes) {
        MatmulShape shape = panel.shape();
        if (source.width() != shape.rowStride()) {
            throw new IllegalArgumentException("rows of " + source.width() + " elements do not fit panel " + shape);
        }
        Call[] ofShape = calls.get(shape);
        if (ofShape == null) {
            ofShape = new Call[RowCounts.CANDIDATES.length];
            calls.put(shape, ofShape);
        }
        Call call = ofShape[candidate];
        if (call == null) {
            call = new Call(shape, candidate);
            ofShape[candidate] = call;
        }
        BytePointer rows = pointer(source.memory(), source.offsetBytes(firstRow, firstColumn));
        call.run(rows, panel, pointer(result, resultOffsetBytes), stream);
    }

    private BytePointer pointer(NativeBuffer memory, long offsetBytes) {
        BytePointer pointer = pointers.get(memory);
        if (pointer == null) {
            pointer = memory.pointerAt(0);
            pointers.put(memory, pointer);
        }
        memory.movePointer(pointer, offsetBytes);
        return pointer;
    }

    @Override
    public void close() {
        for (Call[] ofShape : calls.values()) {
            for (Call call : ofShape) {
                if (call != null) {
                    call.close();
                }
            }
        }
        dnnl_stream_destroy(stream);
        tileMemory.close();
    }

    /** Prepared arguments of one shape and row count. */
    private static final class Call {
        private final dnnl_primitive primitive;
        private final dnnl_memory source = new dnnl_memory();
        private final dnnl_memory destination = new dnnl_memory();
        private final dnnl_memory scratchpad = new dnnl_memory();
        private final NativeBuffer scratchpadMemory;
        private final dnnl_exec_arg_t arguments = new dnnl_exec_arg_t(4);
        private final dnnl_exec_arg_t weightsArgument;
        private final String name;
        private BytePointer lastRows; // what the arguments hold
        private long lastRowsPosition;
        private BytePointer lastResult;
        private long lastResultPosition;
        private PackedPanel lastPanel;

        Call(MatmulShape shape, int candidate) {
            int numRows = RowCounts.CANDIDATES[candidate];
            name = numRows + " rows x " + shape;
            primitive = shape.primitive(candidate);
            dnnl_memory_desc sourceLayout =
                    OneDnn.matrix(numRows, shape.depth(), shape.format().dataType(), shape.rowStride(), 1);
            dnnl_memory_desc tileLayout = OneDnn.matrix(numRows, shape.width(), dnnl_f32, shape.width(), 1);
            dnnl_memory_desc scratchpadLayout = shape.scratchpad(candidate);
            scratchpadMemory = new NativeBuffer(Math.max(64, dnnl_memory_desc_get_size(scratchpadLayout)));
            create(source, sourceLayout, null);
            create(destination, tileLayout, null);
            create(scratchpad, scratchpadLayout, scratchpadMemory.pointerAt(0));
            dnnl_memory_desc_destroy(sourceLayout);
            dnnl_memory_desc_destroy(tileLayout);
            arguments.position(0).arg(DNNL_ARG_SRC).memory(source);
            arguments.position(1).arg(DNNL_ARG_WEIGHTS);
            arguments.position(2).arg(DNNL_ARG_DST).memory(destination);
            arguments.position(3).arg(DNNL_ARG_SCRATCHPAD).memory(scratchpad);
            arguments.position(0);
            weightsArgument = arguments.getPointer(1);
        }

        private static void create(dnnl_memory memory, dnnl_memory_desc layout, BytePointer pointer) {
            OneDnn.check(dnnl_memory_create(memory, layout, OneDnn.engine(), pointer), "describe an operand");
        }

        void run(BytePointer rows, PackedPanel panel, BytePointer result, dnnl_stream stream) {
            int status = 0;
            if (rows != lastRows || rows.position() != lastRowsPosition) {
                status = dnnl_memory_set_data_handle(source, rows);
                lastRows = rows;
                lastRowsPosition = rows.position();
            }
            if (result != lastResult || result.position() != lastResultPosition) {
                status |= dnnl_memory_set_data_handle(destination, result);
                lastResult = result;
                lastResultPosition = result.position();
            }
            if (panel != lastPanel) {
                weightsArgument.memory(panel.memory());
                lastPanel = panel;
            }
            status |= dnnl_primitive_execute(primitive, stream, 4, arguments);
            if (status != 0) {
                OneDnn.check(status, "multiply " + name);
            }
        }

        void close() {
            dnnl_memory_destroy(source);
            dnnl_memory_destroy(destination);
            dnnl_memory_destroy(scratchpad);
            arguments.deallocate();
            scratchpadMemory.close();
        }
    }
}
