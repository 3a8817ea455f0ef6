package io.millrace.bench.ceiling;

import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_default_flags;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_destroy;

import io.millrace.bench.ceiling.Product.Format;
import io.millrace.plan.ModelShape;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.dnnl.dnnl_stream;

/**
 * All matrix products that one step of a model needs, alone: the same shapes and row counts, distinct weights for every layer,
 * inputs and outputs that stay in cache, no wait between products. In the last layer, once keys and values are there, only rows
 * whose logits are wanted go on. As fast as oneDNN can: its own threading is tried against fixed
 * shares of the columns per thread, whole and in narrow panels, with float32 and with bfloat16 results, many rows also in calls
 * of 256 each, and the fastest stands. Used by one thread.
 */
public final class GemmCeiling implements Pass {
    private static final int NUM_TRIES = 3;
    private static final int NARROW_PANEL_WIDTH = 512;
    private static final int ROWS_OF_A_CUT = 256;

    private final int numLayers;
    private final int numCalls;
    private final Matrix[] matrices;
    private final Crew crew;
    private final Crew conductor = new Crew(1);
    private final Way way;
    private final Product[][] products; // [members][matrices x panels]
    private final Matrix[][] matrixOf; // of each product
    private final dnnl_stream[] streams;

    /** Matrices of neighbouring layers; the LM head counts as one more layer. Several calls of these rows each. */
    private record Matrix(int rows, int numCalls, int depth, int width, int firstLayer, int numLayers) {
        double flops() {
            return 2.0 * rows * numCalls * depth * width * numLayers;
        }
    }

    /** How the products are shared out. */
    private record Way(boolean byOneDnn, int maxPanelWidth, Format format) {
        String describe() {
            String threads = byOneDnn
                    ? "oneDNN's threads"
                    : maxPanelWidth == Integer.MAX_VALUE ? "columns by thread" : "panels by thread";
            return threads + ", " + (format.bfloat16Operands() ? "bf16" : "f32") + " to "
                    + (format.bfloat16Result() ? "bf16" : "f32");
        }
    }

    /**
     * Prepares the fastest way.
     *
     * @param rows tokens of the step
     * @param logitsRows of these that go through the LM head
     * @param bfloat16 whether the model computes in bfloat16
     */
    public static GemmCeiling prepare(ModelShape shape, int rows, int logitsRows, boolean bfloat16, Crew crew) {
        Format format = new Format(bfloat16, false);
        Trial<GemmCeiling> trial = new Trial<>(NUM_TRIES);
        for (Way way : List.of(
                new Way(false, Integer.MAX_VALUE, format),
                new Way(false, NARROW_PANEL_WIDTH, format),
                new Way(true, Integer.MAX_VALUE, format))) {
            trial.add(new GemmCeiling(shape, rows, 1, logitsRows, crew, way));
        }
        if (bfloat16) {
            Way best = trial.fastest().way;
            Way narrowResults = new Way(best.byOneDnn(), best.maxPanelWidth(), new Format(true, true));
            trial.add(new GemmCeiling(shape, rows, 1, logitsRows, crew, narrowResults));
        }
        if (rows > ROWS_OF_A_CUT && rows % ROWS_OF_A_CUT == 0) {
            int numCalls = rows / ROWS_OF_A_CUT;
            Way way = new Way(false, Integer.MAX_VALUE, format);
            trial.add(new GemmCeiling(shape, ROWS_OF_A_CUT, numCalls, logitsRows, crew, way));
        }
        return trial.fastest();
    }

    /**
     * Prepares the one way that is left when a row's bits may depend neither on threads nor on the number of rows: fixed
     * shares of the columns, single-threaded calls, float32 results.
     *
     * @param rows of a call
     * @param numCalls that all rows of the step take
     */
    static GemmCeiling prepareFixed(
            ModelShape shape, int rows, int numCalls, int logitsRows, boolean bfloat16, Crew crew) {
        Way way = new Way(false, Integer.MAX_VALUE, new Format(bfloat16, false));
        GemmCeiling fixed = new GemmCeiling(shape, rows, numCalls, logitsRows, crew, way);
        Trial.bestSeconds(fixed, NUM_TRIES); // warms it up
        return fixed;
    }

    private GemmCeiling(ModelShape shape, int rows, int numCalls, int logitsRows, Crew crew, Way way) {
        this.crew = crew;
        this.way = way;
        this.numLayers = shape.numLayers();
        this.numCalls = numCalls;
        this.matrices = matrices(shape, rows, numCalls, logitsRows);
        int numMembers = way.byOneDnn() ? 1 : crew.numThreads();
        this.products = new Product[numMembers][];
        this.matrixOf = new Matrix[numMembers][];
        this.streams = new dnnl_stream[numMembers];
        members().run(member -> make(member, numMembers));
        seconds(); // touches the memory, makes the thread teams
    }

    private static Matrix[] matrices(ModelShape shape, int rows, int numCalls, int logitsRows) {
        int hidden = shape.hiddenSize();
        int queryWidth = shape.numQueryHeads() * shape.headDim();
        int queryKeyValueWidth = queryWidth + 2 * shape.numKvHeads() * shape.headDim();
        int last = shape.numLayers() - 1;
        List<Matrix> matrices = new ArrayList<>();
        matrices.add(new Matrix(rows, numCalls, hidden, queryKeyValueWidth, 0, last + 1));
        if (last > 0) {
            matrices.add(new Matrix(rows, numCalls, queryWidth, hidden, 0, last));
            matrices.add(new Matrix(rows, numCalls, hidden, 2 * shape.intermediateSize(), 0, last));
            matrices.add(new Matrix(rows, numCalls, shape.intermediateSize(), hidden, 0, last));
        }
        matrices.add(new Matrix(logitsRows, 1, queryWidth, hidden, last, 1));
        matrices.add(new Matrix(logitsRows, 1, hidden, 2 * shape.intermediateSize(), last, 1));
        matrices.add(new Matrix(logitsRows, 1, shape.intermediateSize(), hidden, last, 1));
        matrices.add(new Matrix(logitsRows, 1, hidden, shape.vocabSize(), last + 1, 1));
        return matrices.toArray(Matrix[]::new);
    }

    private Crew members() {
        return way.byOneDnn() ? conductor : crew;
    }

    private void make(int member, int numMembers) {
        if (way.byOneDnn()) {
            OpenMp.setNumThreads(crew.numThreads());
        }
        streams[member] = new dnnl_stream();
        Product.check(dnnl_stream_create(streams[member], Product.engine(), dnnl_stream_default_flags));
        List<Product> made = new ArrayList<>();
        List<Matrix> ofMade = new ArrayList<>();
        for (Matrix matrix : matrices) {
            int start = shareStart(matrix.width(), member, numMembers);
            int end = shareStart(matrix.width(), member + 1, numMembers);
            int numPanels = (int) Math.ceil((end - start) / (double) way.maxPanelWidth());
            for (int panel = 0; panel < numPanels; panel++) {
                int width = shareStart(end - start, panel + 1, numPanels) - shareStart(end - start, panel, numPanels);
                made.add(new Product(
                        matrix.rows(), matrix.depth(), width, matrix.numLayers(), way.format(), streams[member]));
                ofMade.add(matrix);
            }
        }
        products[member] = made.toArray(Product[]::new);
        matrixOf[member] = ofMade.toArray(Matrix[]::new);
    }

    /** Shares begin at multiples of 16 columns, the width of a vector register. */
    private static int shareStart(int width, int share, int numShares) {
        return share == numShares ? width : (int) ((long) width * share / numShares) / 16 * 16;
    }

    /** One pass over all products, in seconds. */
    @Override
    public double seconds() {
        return members().run(this::runAll);
    }

    private void runAll(int member) {
        Product[] mine = products[member];
        for (int layer = 0; layer <= numLayers; layer++) {
            for (int i = 0; i < mine.length; i++) {
                Matrix matrix = matrixOf[member][i];
                int index = layer - matrix.firstLayer();
                for (int call = 0; index >= 0 && index < matrix.numLayers() && call < matrix.numCalls(); call++) {
                    mine[i].run(index);
                }
            }
        }
    }

    /** Which way was fastest. */
    @Override
    public String describe() {
        return way.describe() + (numCalls > 1 ? ", in " + numCalls + " calls" : "");
    }

    /** Floating-point operations of one pass. */
    public double flops() {
        double flops = 0;
        for (Matrix matrix : matrices) {
            flops += matrix.flops();
        }
        return flops;
    }

    @Override
    public void close() {
        members().run(member -> {
            for (Product product : products[member]) {
                product.close();
            }
            dnnl_stream_destroy(streams[member]);
        });
        conductor.close();
    }
}
