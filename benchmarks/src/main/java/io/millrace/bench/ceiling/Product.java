package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_DST;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SRC;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_WEIGHTS;
import static org.bytedeco.dnnl.global.dnnl.dnnl_ab;
import static org.bytedeco.dnnl.global.dnnl.dnnl_bf16;
import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu;
import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu_isa_avx512_core_bf16;
import static org.bytedeco.dnnl.global.dnnl.dnnl_engine_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_format_tag_any;
import static org.bytedeco.dnnl.global.dnnl.dnnl_get_effective_cpu_isa;
import static org.bytedeco.dnnl.global.dnnl.dnnl_matmul_primitive_desc_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_create_with_tag;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_get_size;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_query_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_execute;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_weights_md;

import java.util.ArrayList;
import java.util.List;
import org.bytedeco.dnnl.dnnl_engine;
import org.bytedeco.dnnl.dnnl_exec_arg_t;
import org.bytedeco.dnnl.dnnl_memory;
import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_primitive_desc;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * A oneDNN product [rows, depth] × [depth, width] with a number of distinct weight matrices in the layout that oneDNN likes
 * best for exactly this product. Weights are random, so they are written in that layout at once. Made and run on one thread,
 * whose OpenMP team size at the time of making is the product's.
 */
final class Product implements AutoCloseable {
    private static final dnnl_engine ENGINE = newEngine();

    private final dnnl_primitive primitive = new dnnl_primitive();
    private final dnnl_stream stream;
    private final dnnl_memory source;
    private final dnnl_memory destination;
    private final List<Memory> buffers = new ArrayList<>();
    private final List<dnnl_memory> weights = new ArrayList<>();
    private final List<dnnl_exec_arg_t> arguments = new ArrayList<>();

    /** Number formats of the operands. */
    record Format(boolean bfloat16Operands, boolean bfloat16Result) {
        int operandType() {
            return bfloat16Operands ? dnnl_bf16 : dnnl_f32;
        }

        int resultType() {
            return bfloat16Result ? dnnl_bf16 : dnnl_f32;
        }

        int operandBytes() {
            return bfloat16Operands ? Short.BYTES : Float.BYTES;
        }
    }

    Product(int rows, int depth, int width, int numMatrices, Format format, dnnl_stream stream) {
        this.stream = stream;
        dnnl_memory_desc sourceLayout = describe(rows, depth, format.operandType(), dnnl_ab);
        dnnl_memory_desc anyLayout = describe(depth, width, format.operandType(), dnnl_format_tag_any);
        dnnl_memory_desc resultLayout = describe(rows, width, format.resultType(), dnnl_ab);
        dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
        check(dnnl_matmul_primitive_desc_create(descriptor, ENGINE, sourceLayout, anyLayout, null, resultLayout, null));
        check(dnnl_primitive_create(primitive, descriptor));
        dnnl_memory_desc packed = dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0);
        source = allocate(sourceLayout, format.bfloat16Operands());
        destination = allocate(resultLayout, format.bfloat16Result());
        for (int i = 0; i < numMatrices; i++) {
            dnnl_memory matrix = allocate(packed, format.bfloat16Operands());
            weights.add(matrix);
            dnnl_exec_arg_t call = new dnnl_exec_arg_t(3);
            call.position(0).arg(DNNL_ARG_SRC).memory(source);
            call.position(1).arg(DNNL_ARG_WEIGHTS).memory(matrix);
            call.position(2).arg(DNNL_ARG_DST).memory(destination);
            arguments.add(call.position(0));
        }
        dnnl_primitive_desc_destroy(descriptor);
        dnnl_memory_desc_destroy(sourceLayout);
        dnnl_memory_desc_destroy(anyLayout);
        dnnl_memory_desc_destroy(resultLayout);
    }

    /** Whether oneDNN multiplies bfloat16 natively here. */
    static boolean hasBfloat16() {
        int isa = dnnl_get_effective_cpu_isa();
        return (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
    }

    static dnnl_engine engine() {
        return ENGINE;
    }

    /** Multiplies with one of the matrices. */
    void run(int matrix) {
        check(dnnl_primitive_execute(primitive, stream, 3, arguments.get(matrix)));
    }

    @Override
    public void close() {
        arguments.forEach(dnnl_exec_arg_t::deallocate);
        weights.forEach(matrix -> dnnl_memory_destroy(matrix));
        dnnl_memory_destroy(source);
        dnnl_memory_destroy(destination);
        dnnl_primitive_destroy(primitive);
        buffers.forEach(Memory::close);
    }

    private dnnl_memory allocate(dnnl_memory_desc layout, boolean bfloat16) {
        Memory buffer = new Memory(dnnl_memory_desc_get_size(layout));
        buffers.add(buffer);
        buffer.fillRandom(bfloat16, buffers.size());
        dnnl_memory memory = new dnnl_memory();
        check(dnnl_memory_create(memory, layout, ENGINE, buffer.pointer()));
        return memory;
    }

    private static dnnl_memory_desc describe(long rows, long columns, int type, int tag) {
        dnnl_memory_desc layout = new dnnl_memory_desc();
        check(dnnl_memory_desc_create_with_tag(layout, 2, new long[] {rows, columns}, type, tag));
        return layout;
    }

    private static dnnl_engine newEngine() {
        dnnl_engine engine = new dnnl_engine();
        check(dnnl_engine_create(engine, dnnl_cpu, 0));
        return engine;
    }

    static void check(int status) {
        if (status != 0) {
            throw new IllegalStateException("oneDNN refused a ceiling's product with status " + status);
        }
    }
}
