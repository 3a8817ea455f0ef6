package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_default_flags;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_destroy;

import io.millrace.bench.ceiling.Product.Format;
import org.bytedeco.dnnl.dnnl_stream;

/** How fast all threads multiply float32 matrices: each its own square product, by oneDNN. Used by one thread. */
public final class Float32Rate implements AutoCloseable {
    private static final int SIZE = 1024;
    private static final int NUM_PRODUCTS = 4;

    private final Crew crew;
    private final Product[] products;
    private final dnnl_stream[] streams;

    public Float32Rate(Crew crew) {
        this.crew = crew;
        this.products = new Product[crew.numThreads()];
        this.streams = new dnnl_stream[crew.numThreads()];
        crew.run(member -> {
            streams[member] = new dnnl_stream();
            Product.check(dnnl_stream_create(streams[member], Product.engine(), dnnl_stream_default_flags));
            products[member] = new Product(SIZE, SIZE, SIZE, 1, new Format(false, false), streams[member]);
        });
        flopsPerSecond();
    }

    /** One measurement. */
    public double flopsPerSecond() {
        double seconds = crew.run(member -> {
            for (int i = 0; i < NUM_PRODUCTS; i++) {
                products[member].run(0);
            }
        });
        return 2.0 * SIZE * SIZE * SIZE * NUM_PRODUCTS * crew.numThreads() / seconds;
    }

    @Override
    public void close() {
        crew.run(member -> {
            products[member].close();
            dnnl_stream_destroy(streams[member]);
        });
    }
}
