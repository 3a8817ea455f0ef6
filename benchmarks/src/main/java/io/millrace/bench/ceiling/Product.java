package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_DST;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SRC;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_WEIGHTS;
import static org.bytedeco.dnnl.global.dnnl.dnnl_bf16;
import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu;
import static org.bytedeco.dnnl.global.dnnl.dnnl_cpu_isa_avx512_core_bf16;
import static org.bytedeco.dnnl.global.dnnl.dnnl_data_type_undef;
import static org.bytedeco.dnnl.global.dnnl.dnnl_eltwise_exp;
import static org.bytedeco.dnnl.global.dnnl.dnnl_engine_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_format_tag_any;
import static org.bytedeco.dnnl.global.dnnl.dnnl_get_effective_cpu_isa;
import static org.bytedeco.dnnl.global.dnnl.dnnl_matmul_primitive_desc_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_create_with_tag;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_append_eltwise;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_append_sum;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_post_ops_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_attr_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_attr_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_attr_set_post_ops;
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
import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_post_ops;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_primitive_attr;
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
    private final Tensor source; // kept reachable: the calls know addresses only
    private final boolean ownsSource; // or another call writes it
    private final Tensor result;
    private final List<Tensor> weights = new ArrayList<>();
    private final List<dnnl_exec_arg_t> arguments = new ArrayList<>();

    /** Number formats of the operands. */
    record Format(boolean bfloat16Operands, boolean bfloat16Result) {
        int operandType() {
            return bfloat16Operands ? dnnl_bf16 : dnnl_f32;
        }
    }

    /** What is done to a product's sums before they are written. */
    enum After {
        NOTHING,
        /** Their exponentials are written. */
        EXPONENTIAL,
        /** They are added to what is there. */
        ADD
    }

    Product(int rows, int depth, int width, int numMatrices, Format format, dnnl_stream stream) {
        this(rows, depth, width, numMatrices, format, null, After.NOTHING, stream);
    }

    /** @param source what another call writes, null for numbers of its own */
    Product(
            int rows,
            int depth,
            int width,
            int numMatrices,
            Format format,
            Tensor source,
            After after,
            dnnl_stream stream) {
        this.stream = stream;
        dnnl_memory_desc sourceLayout = Tensor.describe(rows, depth, format.bfloat16Operands());
        dnnl_memory_desc anyLayout = new dnnl_memory_desc();
        check(dnnl_memory_desc_create_with_tag(
                anyLayout, 2, new long[] {depth, width}, format.operandType(), dnnl_format_tag_any));
        dnnl_memory_desc resultLayout = Tensor.describe(rows, width, format.bfloat16Result());
        dnnl_primitive_attr attributes = attributes(after);
        dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
        check(dnnl_matmul_primitive_desc_create(
                descriptor, ENGINE, sourceLayout, anyLayout, null, resultLayout, attributes));
        check(dnnl_primitive_create(primitive, descriptor));
        dnnl_memory_desc packed = dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0);
        ownsSource = source == null;
        this.source = ownsSource ? new Tensor(rows, depth, format.bfloat16Operands(), 1) : source;
        result = new Tensor(rows, width, format.bfloat16Result(), 2);
        for (int i = 0; i < numMatrices; i++) {
            Tensor matrix = Tensor.inLayout(packed, format.bfloat16Operands(), i + 3);
            weights.add(matrix);
            dnnl_exec_arg_t call = new dnnl_exec_arg_t(3);
            call.position(0).arg(DNNL_ARG_SRC).memory(this.source.memory());
            call.position(1).arg(DNNL_ARG_WEIGHTS).memory(matrix.memory());
            call.position(2).arg(DNNL_ARG_DST).memory(result.memory());
            arguments.add(call.position(0));
        }
        dnnl_primitive_desc_destroy(descriptor);
        dnnl_primitive_attr_destroy(attributes);
        dnnl_memory_desc_destroy(sourceLayout);
        dnnl_memory_desc_destroy(anyLayout);
        dnnl_memory_desc_destroy(resultLayout);
    }

    private static dnnl_primitive_attr attributes(After after) {
        dnnl_primitive_attr attributes = new dnnl_primitive_attr();
        check(dnnl_primitive_attr_create(attributes));
        dnnl_post_ops operations = new dnnl_post_ops();
        check(dnnl_post_ops_create(operations));
        if (after == After.EXPONENTIAL) {
            check(dnnl_post_ops_append_eltwise(operations, dnnl_eltwise_exp, 0, 0));
        } else if (after == After.ADD) {
            check(dnnl_post_ops_append_sum(operations, 1, 0, dnnl_data_type_undef));
        }
        check(dnnl_primitive_attr_set_post_ops(attributes, operations));
        dnnl_post_ops_destroy(operations);
        return attributes;
    }

    /** What a run writes. */
    Tensor result() {
        return result;
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
        weights.forEach(Tensor::close);
        if (ownsSource) {
            source.close();
        }
        result.close();
        dnnl_primitive_destroy(primitive);
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
