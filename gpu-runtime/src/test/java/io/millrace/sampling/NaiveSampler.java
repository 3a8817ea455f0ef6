package io.millrace.sampling;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The sampler's rules again, as plainly as they can be written: doubles, a full sort, one id after the other. */
final class NaiveSampler {
    private NaiveSampler() {}

    static double[] adjusted(float[] logits, RowSampling row) {
        SamplingParams params = row.params();
        double[] adjusted = new double[logits.length];
        for (int i = 0; i < logits.length; i++) {
            adjusted[i] = logits[i];
        }
        params.logitBias().forEach((id, bias) -> adjusted[id] += bias);
        for (int id : row.suppressedTokenIds()) {
            adjusted[id] = Double.NEGATIVE_INFINITY;
        }
        Set<Integer> met = new HashSet<>();
        Map<Integer, Integer> output = new HashMap<>();
        for (int i = 0; i < row.numTokens(); i++) {
            met.add(row.tokenIds()[i]);
            if (i >= row.numPromptTokens()) {
                output.merge(row.tokenIds()[i], 1, Integer::sum);
            }
        }
        double repetition = params.repetitionPenalty();
        for (int id : met) {
            adjusted[id] = adjusted[id] > 0 ? adjusted[id] / repetition : adjusted[id] * repetition;
        }
        output.forEach((id, count) ->
                adjusted[id] -= count * (double) params.frequencyPenalty() + (double) params.presencePenalty());
        return adjusted;
    }

    static double[] distribution(float[] logits, RowSampling row) {
        SamplingParams params = row.params();
        double[] adjusted = adjusted(logits, row);
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < adjusted.length; i++) {
            if (adjusted[i] != Double.NEGATIVE_INFINITY) {
                order.add(i);
            }
        }
        // 0 - x makes one zero of both: they are equal logits.
        order.sort(Comparator.<Integer>comparingDouble(i -> 0 - adjusted[i]).thenComparingInt(i -> i));
        double[] probs = new double[adjusted.length];
        if (params.temperature() == 0) {
            probs[order.get(0)] = 1;
            return probs;
        }
        double max = adjusted[order.get(0)];
        for (int i : order) {
            probs[i] = Math.exp((adjusted[i] - max) / params.temperature());
        }
        if (params.minP() > 0) {
            order.removeIf(i -> probs[i] < params.minP());
        }
        if (params.topK() > 0 && params.topK() < order.size()) {
            order = order.subList(0, params.topK());
        }
        double mass = order.stream().mapToDouble(i -> probs[i]).sum();
        double above = 0;
        double kept = 0;
        double[] result = new double[probs.length];
        for (int i : order) {
            if (params.topP() < 1 && above / mass >= params.topP()) {
                break;
            }
            above += probs[i];
            kept += probs[i];
            result[i] = probs[i];
        }
        for (int i = 0; i < result.length; i++) {
            result[i] /= kept;
        }
        return result;
    }

    /** Ids by score, best first: exponential noise over probability. */
    static double[] scores(double[] probs, RowSampling row) {
        double[] scores = new double[probs.length];
        for (int id = 0; id < probs.length; id++) {
            scores[id] = probs[id] == 0 ? Double.POSITIVE_INFINITY : noise(row, id) / probs[id];
        }
        return scores;
    }

    private static double noise(RowSampling row, int id) {
        long seed = row.params().seed();
        long word = 0xFFFFFFFFL - philox(seed, row.sampleIndex(), row.outputPosition(), id / 4, 0)[id % 4];
        double low = 0.5;
        if (word < 4096) {
            low = (philox(seed, row.sampleIndex(), row.outputPosition(), id / 4, 1)[id % 4] + 0.5) / 4294967296.0;
        }
        return -Math.log1p(-(word + low) / 4294967296.0);
    }

    /** Philox4x32-10 in big integers. */
    static long[] philox(long key, long... counter) {
        BigInteger word = BigInteger.ONE.shiftLeft(32);
        BigInteger[] x = new BigInteger[4];
        for (int i = 0; i < 4; i++) {
            x[i] = BigInteger.valueOf(counter[i] & 0xFFFFFFFFL);
        }
        BigInteger k0 = BigInteger.valueOf(key & 0xFFFFFFFFL);
        BigInteger k1 = BigInteger.valueOf(key >>> 32);
        for (int round = 0; round < 10; round++) {
            BigInteger[] p0 = x[0].multiply(BigInteger.valueOf(0xD2511F53L)).divideAndRemainder(word);
            BigInteger[] p1 = x[2].multiply(BigInteger.valueOf(0xCD9E8D57L)).divideAndRemainder(word);
            x = new BigInteger[] {
                p1[0].xor(x[1]).xor(k0), p1[1], p0[0].xor(x[3]).xor(k1), p0[1]
            };
            k0 = k0.add(BigInteger.valueOf(0x9E3779B9L)).mod(word);
            k1 = k1.add(BigInteger.valueOf(0xBB67AE85L)).mod(word);
        }
        return new long[] {x[0].longValue(), x[1].longValue(), x[2].longValue(), x[3].longValue()};
    }
}
