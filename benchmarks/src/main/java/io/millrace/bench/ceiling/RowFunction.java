package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_DST;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SRC;
import static org.bytedeco.dnnl.global.dnnl.dnnl_eltwise_exp;
import static org.bytedeco.dnnl.global.dnnl.dnnl_eltwise_forward_primitive_desc_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_forward_inference;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_execute;
import static org.bytedeco.dnnl.global.dnnl.dnnl_softmax_accurate;
import static org.bytedeco.dnnl.global.dnnl.dnnl_softmax_forward_primitive_desc_create;

import java.util.List;
import org.bytedeco.dnnl.dnnl_exec_arg_t;
import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_primitive_desc;
import org.bytedeco.dnnl.dnnl_stream;

/** oneDNN's softmax over every row of a matrix, or the exponential of every element of it. Made and run on one thread. */
final class RowFunction implements AutoCloseable {
    private final dnnl_primitive primitive = new dnnl_primitive();
    private final dnnl_stream stream;
    private final List<Tensor> sources; // kept reachable, as is the result: the calls know addresses only
    private final Tensor result;
    private final List<dnnl_exec_arg_t> arguments;

    /** Which. */
    enum Kind {
        SOFTMAX,
        EXPONENTIAL
    }

    /**
     * A function of several matrices of the same size.
     *
     * @param sources what it reads
     * @param bfloat16Sources in which format
     * @param result what it writes for every one of them; null to write over the source
     * @param bfloat16Result in which format; the sources' where it writes over them
     */
    RowFunction(
            Kind kind,
            int rows,
            int columns,
            List<Tensor> sources,
            boolean bfloat16Sources,
            Tensor result,
            boolean bfloat16Result,
            dnnl_stream stream) {
        this.stream = stream;
        this.sources = List.copyOf(sources);
        this.result = result;
        dnnl_memory_desc from = Tensor.describe(rows, columns, bfloat16Sources);
        dnnl_memory_desc to = Tensor.describe(rows, columns, bfloat16Result);
        dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
        Product.check(
                kind == Kind.SOFTMAX
                        ? dnnl_softmax_forward_primitive_desc_create(
                                descriptor,
                                Product.engine(),
                                dnnl_forward_inference,
                                dnnl_softmax_accurate,
                                from,
                                to,
                                1,
                                null)
                        : dnnl_eltwise_forward_primitive_desc_create(
                                descriptor,
                                Product.engine(),
                                dnnl_forward_inference,
                                dnnl_eltwise_exp,
                                from,
                                to,
                                0,
                                0,
                                null));
        Product.check(dnnl_primitive_create(primitive, descriptor));
        arguments = this.sources.stream().map(source -> call(source, result)).toList();
        dnnl_primitive_desc_destroy(descriptor);
        dnnl_memory_desc_destroy(from);
        dnnl_memory_desc_destroy(to);
    }

    private static dnnl_exec_arg_t call(Tensor source, Tensor result) {
        dnnl_exec_arg_t call = new dnnl_exec_arg_t(2);
        call.position(0).arg(DNNL_ARG_SRC).memory(source.memory());
        call.position(1).arg(DNNL_ARG_DST).memory((result == null ? source : result).memory());
        return call.position(0);
    }

    /** Of one of the matrices. */
    void run(int matrix) {
        Product.check(dnnl_primitive_execute(primitive, stream, 2, arguments.get(matrix)));
    }

    @Override
    public void close() {
        arguments.forEach(dnnl_exec_arg_t::deallocate);
        dnnl_primitive_destroy(primitive);
    }
}
