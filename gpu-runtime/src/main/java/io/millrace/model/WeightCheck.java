package io.millrace.model;

import io.millrace.model.ModelSpec.Weight;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Compares a checkpoint with the spec: which weights there must be, of what shape, and which must not be there. */
final class WeightCheck {
    private static final Logger LOG = LoggerFactory.getLogger(WeightCheck.class);
    private static final int MAX_NAMES_IN_WARNING = 5;

    private final ModelSpec spec;
    private final Safetensors tensors;
    private final Path directory;

    WeightCheck(ModelSpec spec, Safetensors tensors, Path directory) {
        this.spec = spec;
        this.tensors = tensors;
        this.directory = directory;
    }

    /** Checks every weight, and refuses a weight that the decoder would leave out (a bias that config.json denies). */
    void run() {
        Set<String> used = new HashSet<>();
        for (Weight weight : Weight.values()) {
            int numLayers = isPerLayer(weight) ? spec.numLayers() : 1;
            for (int layer = 0; layer < numLayers; layer++) {
                if (isInSpec(weight)) {
                    used.add(require(weight, layer).name());
                } else if (weight != Weight.LM_HEAD) {
                    refuse(weight, layer);
                }
            }
        }
        warnOfUnused(used);
    }

    Tensor require(Weight weight, int layer) {
        Weight stored = weight == Weight.LM_HEAD && spec.tiedEmbeddings() ? Weight.EMBEDDING : weight;
        if (!isInSpec(stored)) {
            throw new InvalidModelException(
                    "config.json of " + directory + " says that the model has no weight " + weight);
        }
        if (isPerLayer(stored) && (layer < 0 || layer >= spec.numLayers())) {
            throw new IndexOutOfBoundsException("layer " + layer + " of " + spec.numLayers());
        }
        Tensor tensor = tensors.tensor(spec.names().tensorName(stored, layer));
        long[] shape = shape(stored);
        if (!tensor.hasShape(shape)) {
            throw new InvalidModelException(tensor.describe() + " has the wrong shape: config.json asks for "
                    + Arrays.toString(shape) + "; weights and config.json must be of the same model");
        }
        if (!tensor.storageType().isReadableAsFloat()) {
            throw new InvalidModelException(tensor.describe()
                    + " is not F32, F16 or BF16: quantised weights are not supported; use the unquantised checkpoint");
        }
        return tensor;
    }

    private void refuse(Weight weight, int layer) {
        String name = spec.names().tensorName(weight, layer);
        if (tensors.contains(name)) {
            throw new InvalidModelException(tensors.tensor(name).describe()
                    + " is there although config.json says that the model has no such weight; correct attention_bias or"
                    + " mlp_bias");
        }
    }

    private void warnOfUnused(Set<String> used) {
        List<String> unused = new ArrayList<>();
        for (String name : tensors.names()) {
            boolean isExpected = used.contains(name)
                    || name.endsWith(".rotary_emb.inv_freq") // a derived table that older checkpoints carry
                    || (spec.tiedEmbeddings() && name.equals(spec.names().tensorName(Weight.LM_HEAD, 0)));
            if (!isExpected) {
                unused.add(name);
            }
        }
        if (!unused.isEmpty()) {
            LOG.warn(
                    "{} holds {} tensors that family {} does not use, the first of them {}; answers may differ from the"
                            + " model's own if it needs them",
                    directory,
                    unused.size(),
                    spec.family(),
                    unused.subList(0, Math.min(MAX_NAMES_IN_WARNING, unused.size())));
        }
    }

    private static boolean isPerLayer(Weight weight) {
        return weight != Weight.EMBEDDING && weight != Weight.FINAL_NORM && weight != Weight.LM_HEAD;
    }

    private boolean isInSpec(Weight weight) {
        switch (weight) {
            case LM_HEAD:
                return !spec.tiedEmbeddings();
            case QUERY_BIAS:
            case KEY_BIAS:
            case VALUE_BIAS:
            case ATTENTION_OUTPUT_BIAS:
                return spec.attentionBias();
            case GATE_BIAS:
            case UP_BIAS:
            case DOWN_BIAS:
                return spec.mlpBias();
            default:
                return true;
        }
    }

    private long[] shape(Weight weight) {
        long hidden = spec.hiddenSize();
        long query = (long) spec.numQueryHeads() * spec.headDim();
        long keyValue = (long) spec.numKvHeads() * spec.headDim();
        long intermediate = spec.intermediateSize();
        switch (weight) {
            case EMBEDDING:
            case LM_HEAD:
                return new long[] {spec.vocabSize(), hidden};
            case QUERY:
                return new long[] {query, hidden};
            case QUERY_BIAS:
                return new long[] {query};
            case KEY:
            case VALUE:
                return new long[] {keyValue, hidden};
            case KEY_BIAS:
            case VALUE_BIAS:
                return new long[] {keyValue};
            case ATTENTION_OUTPUT:
                return new long[] {hidden, query};
            case GATE:
            case UP:
                return new long[] {intermediate, hidden};
            case GATE_BIAS:
            case UP_BIAS:
                return new long[] {intermediate};
            case DOWN:
                return new long[] {hidden, intermediate};
            case FINAL_NORM:
            case ATTENTION_NORM:
            case MLP_NORM:
            case ATTENTION_OUTPUT_BIAS:
            case DOWN_BIAS:
                return new long[] {hidden};
            default:
                throw new IllegalArgumentException("no shape for " + weight);
        }
    }
}
