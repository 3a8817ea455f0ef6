package io.millrace.bench.ceiling;

import io.millrace.bench.ceiling.Product.After;
import io.millrace.bench.ceiling.Product.Format;
import io.millrace.bench.ceiling.RowFunction.Kind;
import java.util.List;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * Attention of some rows of queries over some keys of one KV head: two products, and between them what turns scores into
 * weights. Scores and weights stay in cache. Made and run on one thread.
 */
final class AttentionTile implements AutoCloseable {
    private final Product keys;
    private final Tensor weights; // null where they lie where the scores were
    private final RowFunction softmax; // null where the products do all
    private final Product values;

    /** How scores become weights. */
    enum Way {
        /** Not at all. */
        PRODUCTS_ALONE("products alone"),
        /** Float32 scores, weights in the format of the operands beside them. */
        SOFTMAX("softmax of float32 scores"),
        /** Scores in the format of the operands, weights over them. */
        SOFTMAX_IN_PLACE("softmax in place"),
        /** The product writes exponentials. Nobody finds maxima or sums: less than a softmax needs. */
        EXPONENTIAL_IN_PRODUCT("exponentials within the product");

        private final String description;

        Way(String description) {
            this.description = description;
        }

        String description() {
            return description;
        }
    }

    /** @param numMatrices distinct keys, and as many values */
    AttentionTile(int rows, int headDim, int numKeys, int numMatrices, boolean bfloat16, Way way, dnnl_stream stream) {
        boolean scoresAsOperands = way == Way.SOFTMAX_IN_PLACE || way == Way.EXPONENTIAL_IN_PRODUCT;
        Format toScores = new Format(bfloat16, bfloat16 && scoresAsOperands);
        After after = way == Way.EXPONENTIAL_IN_PRODUCT ? After.EXPONENTIAL : After.NOTHING;
        keys = new Product(rows, headDim, numKeys, numMatrices, toScores, null, after, stream);
        weights = scoresAsOperands ? null : new Tensor(rows, numKeys, bfloat16, numMatrices);
        boolean bfloat16Scores = toScores.bfloat16Result();
        softmax = way == Way.SOFTMAX || way == Way.SOFTMAX_IN_PLACE
                ? new RowFunction(
                        Kind.SOFTMAX,
                        rows,
                        numKeys,
                        List.of(keys.result()),
                        bfloat16Scores,
                        weights,
                        way == Way.SOFTMAX ? bfloat16 : bfloat16Scores,
                        stream)
                : null;
        Tensor source = weights == null ? keys.result() : weights;
        values = new Product(
                rows, numKeys, headDim, numMatrices, new Format(bfloat16, false), source, After.NOTHING, stream);
    }

    /** With one of the keys and its values. */
    void run(int matrix) {
        keys.run(matrix);
        if (softmax != null) {
            softmax.run(0);
        }
        values.run(matrix);
    }

    @Override
    public void close() {
        values.close();
        if (softmax != null) {
            softmax.close();
        }
        keys.close();
        if (weights != null) {
            weights.close();
        }
    }
}
