package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec;
import io.millrace.model.ModelSpec.Weight;
import io.millrace.model.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** All weights of a model, packed for this machine. Read-only after loading; any thread. */
final class DecoderWeights implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(DecoderWeights.class);
    private static final long ARENA_SLAB_BYTES = 32L << 20;
    private static final int MAX_PANEL_WIDTH = 256;
    /** Narrower, since a panel of gate goes with one of up, and threads must find enough pairs. */
    private static final int MAX_GATE_PANEL_WIDTH = 192;

    /**
     * Weights that caches cannot hold: a row by itself then waits for memory, which our own kernel reads faster. It is hardly worth
     * its trial, half a second more until a model is open, where they stay in caches.
     */
    private static final long MIN_BYTES_OF_MEMORY = 32L << 20;

    private static final int MAX_LM_HEAD_PANEL_WIDTH = 768;

    private final ModelSpec spec;
    private final NumberFormat format;
    private final MatmulShapes shapes;
    private final NativeArena packed = new NativeArena(ARENA_SLAB_BYTES);
    private final Tensor embedding;
    private final float[] finalNorm;
    private final PackedMatrix lmHead;
    private final Layer[] layers;
    private final List<PackedMatrix> matrices = new ArrayList<>();
    private final Kernels kernels;
    private RowCounts rowCounts;
    private AttentionShapes attentionShapes;

    /**
     * One decoder block.
     *
     * @param attentionNorm [hidden]
     * @param queryKeyValue [hidden, (query heads + 2 KV heads) × head dim]: q, then k, then v
     * @param attentionOutput [query heads × head dim, hidden], added to the residual stream
     * @param mlpNorm [hidden]
     * @param gate [hidden, intermediate], whose panels multiply those of up
     * @param up [hidden, intermediate], by the same panels
     * @param down [intermediate, hidden], added to the residual stream
     */
    record Layer(
            float[] attentionNorm,
            PackedMatrix queryKeyValue,
            PackedMatrix attentionOutput,
            float[] mlpNorm,
            PackedMatrix gate,
            PackedMatrix up,
            PackedMatrix down) {}

    private DecoderWeights(ModelDirectory model, NumberFormat format, Kernels kernels) {
        this.spec = model.spec();
        this.format = format;
        this.kernels = kernels;
        this.embedding = model.weight(Weight.EMBEDDING, 0);
        this.finalNorm = vector(model, Weight.FINAL_NORM, 0);
        Tensor head = model.weight(Weight.LM_HEAD, 0);
        this.lmHead = register(new PackedMatrix(
                format,
                PackedMatrix.heldFormat(format, head),
                spec.hiddenSize(),
                MAX_LM_HEAD_PANEL_WIDTH,
                ProductEnd.STORE,
                PackedMatrix.TOGETHER,
                null,
                head));
        this.layers = new Layer[spec.numLayers()];
        for (int i = 0; i < layers.length; i++) {
            layers[i] = describeLayer(model, i);
        }
        this.shapes = new MatmulShapes(format, kernels, numBytes() >= MIN_BYTES_OF_MEMORY);
    }

    /** Reads and packs a model with all compute threads, then waits for them. */
    static DecoderWeights load(ModelDirectory model, NumberFormat format, Kernels kernels, ComputeThreads threads) {
        long start = System.nanoTime();
        DecoderWeights weights = new DecoderWeights(model, format, kernels);
        try {
            threads.run(weights::pack);
        } catch (RuntimeException | Error e) {
            weights.close();
            throw e;
        }
        LOG.info(
                "packed {} for {} arithmetic in {} ms: {} MB of weights, held as {}",
                model.path(),
                format.optionName(),
                (System.nanoTime() - start) / 1_000_000,
                weights.numBytes() / 1_000_000,
                weights.heldFormats());
        String refused = weights.shapes.refusedRowCounts();
        if (!refused.isEmpty()) {
            LOG.info(
                    "row counts whose bits differ from those of {} rows, rounded up instead for all products: {}",
                    RowCounts.ANCHOR,
                    refused);
        }
        String withoutSingleRows = weights.shapes.withoutSingleRows();
        if (!withoutSingleRows.isEmpty()) {
            LOG.info(
                    "steps of one row are left to the matrix library, since its sums or its layout here are not those of our"
                            + " own kernel, which reads weights faster; nothing but larger batches helps: {}",
                    withoutSingleRows);
        }
        if (!weights.attentionShapes.remark().isEmpty()) {
            LOG.info(weights.attentionShapes.remark());
        }
        return weights;
    }

    /** Of all matrices, as they are held. */
    private long numBytes() {
        return matrices.stream().mapToLong(PackedMatrix::numBytes).sum();
    }

    private String heldFormats() {
        return matrices.stream()
                .map(matrix -> matrix.heldFormat().optionName())
                .distinct()
                .collect(Collectors.joining(" and "));
    }

    private Layer describeLayer(ModelDirectory model, int layer) {
        int hidden = spec.hiddenSize();
        int intermediate = spec.intermediateSize();
        int attentionWidth = spec.numQueryHeads() * spec.headDim();
        boolean attentionBias = spec.attentionBias();
        boolean mlpBias = spec.mlpBias();
        Tensor query = model.weight(Weight.QUERY, layer);
        Tensor key = model.weight(Weight.KEY, layer);
        Tensor value = model.weight(Weight.VALUE, layer);
        Tensor output = model.weight(Weight.ATTENTION_OUTPUT, layer);
        Tensor gate = model.weight(Weight.GATE, layer);
        Tensor up = model.weight(Weight.UP, layer);
        Tensor down = model.weight(Weight.DOWN, layer);
        NumberFormat ofGateAndUp = PackedMatrix.heldFormat(format, gate, up); // their panels go together
        return new Layer(
                vector(model, Weight.ATTENTION_NORM, layer),
                register(new PackedMatrix(
                        format,
                        PackedMatrix.heldFormat(format, query, key, value),
                        hidden,
                        MAX_PANEL_WIDTH,
                        ProductEnd.STORE,
                        queryKeyValueWidth(spec),
                        attentionBias
                                ? vectors(model, layer, Weight.QUERY_BIAS, Weight.KEY_BIAS, Weight.VALUE_BIAS)
                                : null,
                        query,
                        key,
                        value)),
                register(new PackedMatrix(
                        format,
                        PackedMatrix.heldFormat(format, output),
                        attentionWidth,
                        MAX_PANEL_WIDTH,
                        ProductEnd.ADD,
                        hidden,
                        attentionBias ? vector(model, Weight.ATTENTION_OUTPUT_BIAS, layer) : null,
                        output)),
                vector(model, Weight.MLP_NORM, layer),
                register(new PackedMatrix(
                        format,
                        ofGateAndUp,
                        hidden,
                        MAX_GATE_PANEL_WIDTH,
                        ProductEnd.GATE,
                        intermediate,
                        mlpBias ? vector(model, Weight.GATE_BIAS, layer) : null,
                        gate)),
                register(new PackedMatrix(
                        format,
                        ofGateAndUp,
                        hidden,
                        MAX_GATE_PANEL_WIDTH,
                        ProductEnd.STORE,
                        intermediate,
                        mlpBias ? vector(model, Weight.UP_BIAS, layer) : null,
                        up)),
                register(new PackedMatrix(
                        format,
                        PackedMatrix.heldFormat(format, down),
                        intermediate,
                        MAX_PANEL_WIDTH,
                        ProductEnd.ADD,
                        hidden,
                        mlpBias ? vector(model, Weight.DOWN_BIAS, layer) : null,
                        down)));
    }

    /** Elements of a token's q, k and v. */
    static int queryKeyValueWidth(ModelSpec spec) {
        return (spec.numQueryHeads() + 2 * spec.numKvHeads()) * spec.headDim();
    }

    private PackedMatrix register(PackedMatrix matrix) {
        matrices.add(matrix);
        return matrix;
    }

    private static float[] vector(ModelDirectory model, Weight weight, int layer) {
        return vectors(model, layer, weight);
    }

    private static float[] vectors(ModelDirectory model, int layer, Weight... weights) {
        int count = 0;
        for (Weight weight : weights) {
            count += (int) model.weight(weight, layer).numElements();
        }
        float[] all = new float[count];
        int at = 0;
        for (Weight weight : weights) {
            Tensor tensor = model.weight(weight, layer);
            int length = (int) tensor.numElements();
            tensor.readFloats(0, all, at, length);
            at += length;
        }
        return all;
    }

    private void pack(ComputeThreads.Worker worker) {
        int numPanels = 0;
        for (PackedMatrix matrix : matrices) {
            numPanels += matrix.numPanels();
        }
        try (MatmulThread thread = new MatmulThread(1)) {
            for (int task = worker.firstTask(numPanels); task >= 0; task = worker.nextTask()) {
                int panel = task;
                int index = 0;
                while (panel >= matrices.get(index).numPanels()) {
                    panel -= matrices.get(index++).numPanels();
                }
                matrices.get(index).packPanel(panel, shapes, packed, thread);
            }
        }
        for (int task = worker.firstTask(1); task >= 0; task = worker.nextTask()) {
            matrices.forEach(PackedMatrix::finishPacking);
            rowCounts = matrices.stream()
                    .map(PackedMatrix::rowCounts)
                    .reduce(RowCounts::and)
                    .orElseThrow();
            attentionShapes = AttentionShapes.probe(spec.headDim(), format, kernels);
        }
    }

    NumberFormat format() {
        return format;
    }

    Tensor embedding() {
        return embedding;
    }

    float[] finalNorm() {
        return finalNorm;
    }

    PackedMatrix lmHead() {
        return lmHead;
    }

    Layer layer(int index) {
        return layers[index];
    }

    /** Attention's products for the model's heads. */
    AttentionShapes attentionShapes() {
        return attentionShapes;
    }

    /** Row counts that all panels accept. */
    RowCounts rowCounts() {
        return rowCounts;
    }

    /** Refuses what these do, too, in backends opened from now on; for tests. */
    void restrictRowCounts(RowCounts accepted) {
        rowCounts = rowCounts.and(accepted);
    }

    /** Most elements of what goes to a tile at the largest row count: panels of the LM head, and up's, which stand far apart. */
    int maxTileElements() {
        return Math.multiplyExact(Math.max(spec.intermediateSize(), MAX_LM_HEAD_PANEL_WIDTH), RowCounts.LARGEST);
    }

    /** Of any panel. */
    int maxDepth() {
        return Math.max(Math.max(spec.hiddenSize(), spec.intermediateSize()), spec.numQueryHeads() * spec.headDim());
    }

    static int maxPanelWidth() {
        return MAX_LM_HEAD_PANEL_WIDTH;
    }

    @Override
    public void close() {
        matrices.forEach(PackedMatrix::close);
        packed.close();
        shapes.close();
        if (attentionShapes != null) {
            attentionShapes.close();
        }
    }
}
