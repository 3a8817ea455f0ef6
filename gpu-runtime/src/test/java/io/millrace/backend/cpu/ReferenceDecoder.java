package io.millrace.backend.cpu;

import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec;
import io.millrace.model.ModelSpec.Weight;
import io.millrace.model.RopeSpec;
import io.millrace.model.Tensor;

/** The decoder in plain double loops, one whole sequence at a time: the control that backends are compared with. */
final class ReferenceDecoder {
    private final ModelDirectory model;
    private final ModelSpec spec;
    private final RopeSpec rope;

    ReferenceDecoder(ModelDirectory model, RopeSpec rope) {
        this.model = model;
        this.rope = rope;
        this.spec = model.spec();
    }

    /** Logits of every position, [tokens][vocabulary]. */
    double[][] logits(int[] tokens) {
        int length = tokens.length;
        double[][] x = new double[length][];
        double[] embedding = read(Weight.EMBEDDING, 0);
        for (int t = 0; t < length; t++) {
            x[t] = new double[spec.hiddenSize()];
            System.arraycopy(embedding, tokens[t] * spec.hiddenSize(), x[t], 0, spec.hiddenSize());
        }
        for (int layer = 0; layer < spec.numLayers(); layer++) {
            attend(x, layer);
            feedForward(x, layer);
        }
        double[] head = read(Weight.LM_HEAD, 0);
        double[] norm = read(Weight.FINAL_NORM, 0);
        double[][] logits = new double[length][];
        for (int t = 0; t < length; t++) {
            logits[t] = times(norm(x[t], norm), head, spec.vocabSize());
        }
        return logits;
    }

    private void attend(double[][] x, int layer) {
        int headDim = spec.headDim();
        double[] weight = read(Weight.ATTENTION_NORM, layer);
        double[] wq = read(Weight.QUERY, layer);
        double[] wk = read(Weight.KEY, layer);
        double[] wv = read(Weight.VALUE, layer);
        double[] wo = read(Weight.ATTENTION_OUTPUT, layer);
        double[][] k = new double[x.length][];
        double[][] v = new double[x.length][];
        for (int t = 0; t < x.length; t++) {
            double[] normed = norm(x[t], weight);
            double[] q = times(normed, wq, spec.numQueryHeads() * headDim);
            k[t] = times(normed, wk, spec.numKvHeads() * headDim);
            v[t] = times(normed, wv, spec.numKvHeads() * headDim);
            rotate(q, spec.numQueryHeads(), t);
            rotate(k[t], spec.numKvHeads(), t);
            double[] out = new double[q.length];
            for (int head = 0; head < spec.numQueryHeads(); head++) {
                attendHead(q, head * headDim, k, v, head / spec.numQueryHeadsPerKvHead() * headDim, t, out);
            }
            add(x[t], times(out, wo, spec.hiddenSize()));
        }
    }

    private void attendHead(double[] q, int at, double[][] k, double[][] v, int kvAt, int t, double[] out) {
        int headDim = spec.headDim();
        double[] weights = new double[t + 1];
        double max = Double.NEGATIVE_INFINITY;
        for (int p = 0; p <= t; p++) {
            double dot = 0;
            for (int d = 0; d < headDim; d++) {
                dot += q[at + d] * k[p][kvAt + d];
            }
            weights[p] = dot / Math.sqrt(headDim);
            max = Math.max(max, weights[p]);
        }
        double sum = 0;
        for (int p = 0; p <= t; p++) {
            weights[p] = Math.exp(weights[p] - max);
            sum += weights[p];
        }
        for (int p = 0; p <= t; p++) {
            for (int d = 0; d < headDim; d++) {
                out[at + d] += weights[p] / sum * v[p][kvAt + d];
            }
        }
    }

    private void rotate(double[] x, int numHeads, int position) {
        int half = rope.rotaryDim() / 2;
        for (int head = 0; head < numHeads; head++) {
            int at = head * spec.headDim();
            for (int d = 0; d < half; d++) {
                double angle = position * (double) rope.inverseFrequencies()[d];
                double a = x[at + d];
                double b = x[at + d + half];
                x[at + d] = a * Math.cos(angle) - b * Math.sin(angle);
                x[at + d + half] = b * Math.cos(angle) + a * Math.sin(angle);
            }
        }
    }

    private void feedForward(double[][] x, int layer) {
        double[] weight = read(Weight.MLP_NORM, layer);
        double[] wg = read(Weight.GATE, layer);
        double[] wu = read(Weight.UP, layer);
        double[] wd = read(Weight.DOWN, layer);
        for (double[] row : x) {
            double[] normed = norm(row, weight);
            double[] gate = times(normed, wg, spec.intermediateSize());
            double[] up = times(normed, wu, spec.intermediateSize());
            for (int i = 0; i < gate.length; i++) {
                gate[i] = gate[i] / (1 + Math.exp(-gate[i])) * up[i];
            }
            add(row, times(gate, wd, spec.hiddenSize()));
        }
    }

    private double[] norm(double[] x, double[] weight) {
        double squares = 0;
        for (double value : x) {
            squares += value * value;
        }
        double factor = 1 / Math.sqrt(squares / x.length + spec.rmsNormEps());
        double[] out = new double[x.length];
        for (int i = 0; i < out.length; i++) {
            out[i] = x[i] * factor * weight[i];
        }
        return out;
    }

    /** weight is [outputs][inputs]. */
    private static double[] times(double[] x, double[] weight, int numOutputs) {
        double[] out = new double[numOutputs];
        for (int o = 0; o < numOutputs; o++) {
            for (int i = 0; i < x.length; i++) {
                out[o] += x[i] * weight[o * x.length + i];
            }
        }
        return out;
    }

    private static void add(double[] x, double[] y) {
        for (int i = 0; i < x.length; i++) {
            x[i] += y[i];
        }
    }

    private double[] read(Weight weight, int layer) {
        Tensor tensor = model.weight(weight, layer);
        float[] values = new float[(int) tensor.numElements()];
        tensor.readFloats(0, values, 0, values.length);
        double[] wide = new double[values.length];
        for (int i = 0; i < wide.length; i++) {
            wide[i] = values[i];
        }
        return wide;
    }
}
