package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_BIAS;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_DST;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SCRATCHPAD;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SRC;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SRC_1;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_WEIGHTS;
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
 * of a shape, row count and target nothing is allocated.
 */
final class MatmulThread implements AutoCloseable {
    /** The second thing done to a gate's elements is their product with the tile. */
    private static final int DNNL_ARG_TILE = DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE * 2 | DNNL_ARG_SRC_1;

    private final dnnl_stream stream = new dnnl_stream();
    private final Map<MatmulShape, Call[]> calls = new IdentityHashMap<>();
    private final Map<NativeBuffer, BytePointer> pointers = new IdentityHashMap<>();
    private final NativeBuffer tileMemory;
    private final BytePointer tilePointer;
    private final FloatBuffer tileView;
    private final PanelWidening widening = new PanelWidening(stream);
    private final PanelWidening gateWidening = new PanelWidening(stream); // where a copy of up must not give way to it
    private boolean keepsUp;

    /** @param maxTileElements most elements of the tile, rows rounded up and a result stride apart */
    MatmulThread(int maxTileElements) {
        OneDnn.check(dnnl_stream_create(stream, OneDnn.engine(), dnnl_stream_default_flags), "create a stream");
        tileMemory = new NativeBuffer(4L * maxTileElements);
        tilePointer = tileMemory.pointerAt(0);
        tileView = tileMemory.asByteBuffer().asFloatBuffer();
    }

    dnnl_stream stream() {
        return stream;
    }

    /** Copies neighbouring elements of the tile, which holds the last product that was stored there. */
    void readProduct(int firstElement, float[] target, int offset, int numElements) {
        tileView.get(firstElement, target, offset, numElements);
    }

    /** Sets neighbouring elements of the tile. */
    void writeTile(int firstElement, float[] source, int numElements) {
        tileView.put(firstElement, source, 0, numElements);
    }

    /**
     * Says whether products with a panel of up and one of gate take turns, so that the copies of both should stay; else one takes
     * the other's place, and caches have room for more.
     */
    void keepUp(boolean keeps) {
        keepsUp = keeps;
    }

    /** Multiplies the candidate's number of rows from firstRow on with a panel, and stores the product in the tile. */
    void multiply(ActivationBuffer source, int firstRow, int candidate, PackedPanel panel) {
        run(source, firstRow, 0, candidate, panel, tilePointer);
    }

    /**
     * Multiplies the candidate's number of rows from firstRow on with a panel, and ends the product in as many rows of the
     * target, from a column on.
     */
    void multiply(
            ActivationBuffer source,
            int firstRow,
            int candidate,
            PackedPanel panel,
            ActivationBuffer target,
            int targetRow,
            int targetColumn) {
        MatmulShape shape = panel.shape();
        if (target.width() != shape.resultStride() || target.format() != shape.resultFormat()) {
            throw new IllegalArgumentException(
                    "rows of " + target.width() + " " + target.format() + " elements cannot take the product " + shape);
        }
        run(source, firstRow, 0, candidate, panel, pointer(target, targetRow, targetColumn));
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
        run(source, firstRow, firstColumn, candidate, panel, pointer(result, resultOffsetBytes));
    }

    private void run(
            ActivationBuffer source,
            int firstRow,
            int firstColumn,
            int candidate,
            PackedPanel panel,
            BytePointer target) {
        Call call = call(source, candidate, panel);
        dnnl_memory weights = panel.shape().isWidened() ? widened(panel) : panel.memory();
        call.run(pointer(source, firstRow, firstColumn), panel, weights, target, stream);
    }

    private dnnl_memory widened(PackedPanel panel) {
        return (keepsUp && panel.shape().end() == ProductEnd.GATE ? gateWidening : widening).widen(panel);
    }

    private Call call(ActivationBuffer source, int candidate, PackedPanel panel) {
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
            call = new Call(shape, candidate, tilePointer);
            ofShape[candidate] = call;
        }
        return call;
    }

    private BytePointer pointer(ActivationBuffer buffer, int row, int column) {
        return pointer(buffer.memory(), buffer.offsetBytes(row, column));
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
        widening.close();
        gateWidening.close();
        dnnl_stream_destroy(stream);
        tileMemory.close();
    }

    /** Prepared arguments of one shape and row count. */
    private static final class Call {
        private final dnnl_primitive primitive;
        private final dnnl_memory source = new dnnl_memory();
        private final dnnl_memory destination = new dnnl_memory();
        private final dnnl_memory scratchpad = new dnnl_memory();
        private final dnnl_memory tile; // null but for gates
        private final NativeBuffer scratchpadMemory;
        private final dnnl_exec_arg_t arguments;
        private final int numArguments;
        private final dnnl_exec_arg_t weightsArgument;
        private final dnnl_exec_arg_t biasArgument; // null where there is none
        private final String name;
        private BytePointer lastRows; // what the arguments hold
        private long lastPosition;
        private BytePointer lastTarget;
        private long lastTargetPosition;
        private PackedPanel lastPanel;
        private dnnl_memory lastWeights;

        Call(MatmulShape shape, int candidate, BytePointer tilePointer) {
            int numRows = RowCounts.CANDIDATES[candidate];
            name = numRows + " rows x " + shape;
            primitive = shape.primitive(candidate);
            boolean hasTile = shape.end() == ProductEnd.GATE;
            create(
                    source,
                    OneDnn.matrix(numRows, shape.depth(), shape.format().dataType(), shape.rowStride(), 1),
                    null);
            create(destination, shape.resultLayout(numRows), null);
            dnnl_memory_desc scratchpadLayout = shape.scratchpad(candidate);
            scratchpadMemory = new NativeBuffer(Math.max(64, dnnl_memory_desc_get_size(scratchpadLayout)));
            OneDnn.check(
                    dnnl_memory_create(scratchpad, scratchpadLayout, OneDnn.engine(), scratchpadMemory.pointerAt(0)),
                    "describe an operand");
            numArguments = 4 + (shape.hasBias() ? 1 : 0) + (hasTile ? 1 : 0);
            arguments = new dnnl_exec_arg_t(numArguments);
            arguments.position(0).arg(DNNL_ARG_SRC).memory(source);
            arguments.position(1).arg(DNNL_ARG_WEIGHTS);
            arguments.position(2).arg(DNNL_ARG_DST).memory(destination);
            arguments.position(3).arg(DNNL_ARG_SCRATCHPAD).memory(scratchpad);
            if (shape.hasBias()) {
                arguments.position(4).arg(DNNL_ARG_BIAS);
            }
            if (hasTile) {
                tile = new dnnl_memory();
                create(tile, shape.tileLayout(numRows), tilePointer);
                arguments.position(numArguments - 1).arg(DNNL_ARG_TILE).memory(tile);
            } else {
                tile = null;
            }
            arguments.position(0);
            weightsArgument = arguments.getPointer(1);
            biasArgument = shape.hasBias() ? arguments.getPointer(4) : null;
        }

        private static void create(dnnl_memory memory, dnnl_memory_desc layout, BytePointer pointer) {
            OneDnn.check(dnnl_memory_create(memory, layout, OneDnn.engine(), pointer), "describe an operand");
            dnnl_memory_desc_destroy(layout);
        }

        /** @param weights the panel in the product's format */
        void run(BytePointer rows, PackedPanel panel, dnnl_memory weights, BytePointer target, dnnl_stream stream) {
            int status = 0;
            if (rows != lastRows || rows.position() != lastPosition) {
                status = dnnl_memory_set_data_handle(source, rows);
                lastRows = rows;
                lastPosition = rows.position();
            }
            if (target != lastTarget || target.position() != lastTargetPosition) {
                status |= dnnl_memory_set_data_handle(destination, target);
                lastTarget = target;
                lastTargetPosition = target.position();
            }
            if (weights != lastWeights) {
                weightsArgument.memory(weights);
                lastWeights = weights;
            }
            if (panel != lastPanel && biasArgument != null) {
                biasArgument.memory(panel.bias());
            }
            lastPanel = panel;
            status |= dnnl_primitive_execute(primitive, stream, numArguments, arguments);
            if (status != 0) {
                OneDnn.check(status, "multiply " + name);
            }
        }

        void close() {
            dnnl_memory_destroy(source);
            dnnl_memory_destroy(destination);
            dnnl_memory_destroy(scratchpad);
            if (tile != null) {
                dnnl_memory_destroy(tile);
            }
            arguments.deallocate();
            scratchpadMemory.close();
        }
    }
}
