package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec;
import io.millrace.model.ModelSpec.Weight;
import io.millrace.model.Tensor;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** All weights of a model, packed for this machine. Read-only after loading; any thread. */
final class DecoderWeights implements AutoCloseable {
    private static final Logger LOG = LoggerFactory.getLogger(DecoderWeights.class);
    private static final long ARENA_SLAB_BYTES = 32L << 20;
    private static final int MAX_PANEL_WIDTH = 256;
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
    private AttentionShapes attentionShapes;

    /**
     * One decoder block.
     *
     * @param attentionNorm [hidden]
     * @param queryKeyValue [hidden, (query heads + 2 KV heads) × head dim]: q, then k, then v
     * @param queryKeyValueBias null where the model has none; so the other biases
     * @param attentionOutput [query heads × head dim, hidden]
     * @param mlpNorm [hidden]
     * @param gateUp [hidden, 2 × intermediate], interleaved by panel
     * @param gateBias [intermediate]
     * @param upBias [intermediate]
     * @param down [intermediate, hidden]
     */
    record Layer(
            float[] attentionNorm,
            PackedMatrix queryKeyValue,
            float[] queryKeyValueBias,
            PackedMatrix attentionOutput,
            float[] attentionOutputBias,
            float[] mlpNorm,
            PackedMatrix gateUp,
            float[] gateBias,
            float[] upBias,
            PackedMatrix down,
            float[] downBias) {}

    private DecoderWeights(ModelDirectory model, NumberFormat format, Kernels kernels) {
        this.spec = model.spec();
        this.format = format;
        this.kernels = kernels;
        this.shapes = new MatmulShapes(format, kernels);
        this.embedding = model.weight(Weight.EMBEDDING, 0);
        this.finalNorm = vector(model, Weight.FINAL_NORM, 0);
        this.lmHead = register(
                PackedMatrix.sideBySide(spec.hiddenSize(), MAX_LM_HEAD_PANEL_WIDTH, model.weight(Weight.LM_HEAD, 0)));
        this.layers = new Layer[spec.numLayers()];
        for (int i = 0; i < layers.length; i++) {
            layers[i] = describeLayer(model, i);
        }
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
                "packed {} as {} in {} ms", model.path(), format.optionName(), (System.nanoTime() - start) / 1_000_000);
        String refused = weights.shapes.refusedRowCounts();
        if (!refused.isEmpty()) {
            LOG.info(
                    "row counts whose bits differ from those of {} rows, and which are rounded up instead: {}",
                    RowCounts.ANCHOR,
                    refused);
        }
        if (!weights.attentionShapes.remark().isEmpty()) {
            LOG.info(weights.attentionShapes.remark());
        }
        return weights;
    }

    private Layer describeLayer(ModelDirectory model, int layer) {
        int hidden = spec.hiddenSize();
        int attentionWidth = spec.numQueryHeads() * spec.headDim();
        boolean attentionBias = spec.attentionBias();
        boolean mlpBias = spec.mlpBias();
        return new Layer(
                vector(model, Weight.ATTENTION_NORM, layer),
                register(PackedMatrix.sideBySide(
                        hidden,
                        MAX_PANEL_WIDTH,
                        model.weight(Weight.QUERY, layer),
                        model.weight(Weight.KEY, layer),
                        model.weight(Weight.VALUE, layer))),
                attentionBias ? vectors(model, layer, Weight.QUERY_BIAS, Weight.KEY_BIAS, Weight.VALUE_BIAS) : null,
                register(PackedMatrix.sideBySide(
                        attentionWidth, MAX_PANEL_WIDTH, model.weight(Weight.ATTENTION_OUTPUT, layer))),
                attentionBias ? vector(model, Weight.ATTENTION_OUTPUT_BIAS, layer) : null,
                vector(model, Weight.MLP_NORM, layer),
                register(PackedMatrix.interleaved(
                        hidden, MAX_PANEL_WIDTH, model.weight(Weight.GATE, layer), model.weight(Weight.UP, layer))),
                mlpBias ? vector(model, Weight.GATE_BIAS, layer) : null,
                mlpBias ? vector(model, Weight.UP_BIAS, layer) : null,
                register(PackedMatrix.sideBySide(
                        spec.intermediateSize(), MAX_PANEL_WIDTH, model.weight(Weight.DOWN, layer))),
                mlpBias ? vector(model, Weight.DOWN_BIAS, layer) : null);
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

    int maxPanelWidth() {
        int widest = 0;
        for (PackedMatrix matrix : matrices) {
            widest = Math.max(widest, matrix.maxPanelWidth());
        }
        return widest;
    }

    /** Most elements of one product at the largest row count. */
    int maxTileElements() {
        return maxPanelWidth() * RowCounts.LARGEST;
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
