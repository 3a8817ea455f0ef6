package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_default_flags;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_destroy;

import io.millrace.bench.ceiling.Product.Format;
import io.millrace.plan.ModelShape;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * Attention's two products of one decode step over prompts whose samples share them, alone: for every layer, prompt and KV head
 * the samples' queries with the prompt's keys, and weights with its values. Each keys and values are their own memory, in the
 * layout that oneDNN likes best; no scores are turned into weights, nothing waits. Used by one thread.
 */
public final class AttentionCeiling implements AutoCloseable {
    private final Crew crew;
    private final double flops;
    private final dnnl_stream[] streams;
    private final Product[] keys;
    private final Product[] values;
    private final int[] numProducts; // of each, by member

    /**
     * Prepares the products.
     *
     * @param numSamples of each prompt
     * @param bfloat16 whether the model computes in bfloat16
     */
    AttentionCeiling(ModelShape shape, int numPrompts, int promptTokens, int numSamples, boolean bfloat16, Crew crew) {
        this.crew = crew;
        int numMembers = crew.numThreads();
        int total = shape.numLayers() * numPrompts * shape.numKvHeads();
        int rows = numSamples * (shape.numQueryHeads() / shape.numKvHeads());
        flops = 2.0 * 2 * rows * shape.headDim() * promptTokens * total;
        streams = new dnnl_stream[numMembers];
        keys = new Product[numMembers];
        values = new Product[numMembers];
        numProducts = new int[numMembers];
        Format format = new Format(bfloat16, false);
        crew.run(member -> {
            streams[member] = new dnnl_stream();
            Product.check(dnnl_stream_create(streams[member], Product.engine(), dnnl_stream_default_flags));
            int mine = total * (member + 1) / numMembers - total * member / numMembers;
            numProducts[member] = mine;
            keys[member] = new Product(rows, shape.headDim(), promptTokens, mine, format, streams[member]);
            values[member] = new Product(rows, promptTokens, shape.headDim(), mine, format, streams[member]);
        });
        seconds(); // touches the memory
    }

    /** One pass over all products, in seconds. */
    public double seconds() {
        return crew.run(member -> {
            for (int i = 0; i < numProducts[member]; i++) {
                keys[member].run(i);
                values[member].run(i);
            }
        });
    }

    /** Floating-point operations of one pass. */
    public double flops() {
        return flops;
    }

    @Override
    public void close() {
        crew.run(member -> {
            keys[member].close();
            values[member].close();
            dnnl_stream_destroy(streams[member]);
        });
    }
}
