package io.millrace.plan;

import java.util.Objects;
import java.util.OptionalDouble;
import java.util.OptionalLong;

/**
 * How long a model's steps take on a device if each step costs the greater of its memory traffic and its arithmetic
 * (Williams, Waterman and Patterson's roofline): t = max((W + B·C·k) / BW, (B·W + g·B·C·k) / P) for B sequences of C tokens,
 * in the units of bf16, where a parameter is 2 bytes and 2 FLOPs. A lower bound with published peaks, an estimate with
 * measured rates. Pure arithmetic; any thread.
 */
public record Roofline(ModelCost cost, DeviceRates rates) {

    public Roofline {
        Objects.requireNonNull(cost);
        Objects.requireNonNull(rates);
    }

    /** Time to read the weights once and the KV of every sequence. */
    public double memorySeconds(long numSequences, long contextTokens) {
        return (cost.weightBytes() + numSequences * (double) contextTokens * cost.kvBytesPerToken())
                / rates.memoryBytesPerSecond();
    }

    /** Time to compute tokensPerSequence tokens for every sequence: 1 in plain decode, γ + 1 when verifying a draft of γ. */
    public double computeSeconds(long numSequences, long contextTokens, int tokensPerSequence) {
        double numTokens = (double) numSequences * tokensPerSequence;
        return numTokens * cost.gemmFlopsPerToken() / rates.gemmFlopsPerSecond()
                + numTokens * contextTokens * cost.attentionFlopsPerPair() / rates.attentionFlopsPerSecond();
    }

    /** A decode step: one token for each of numSequences sequences of contextTokens each. */
    public double stepSeconds(long numSequences, long contextTokens) {
        return stepSeconds(numSequences, contextTokens, 1);
    }

    /** A step of tokensPerSequence tokens for each sequence. */
    public double stepSeconds(long numSequences, long contextTokens, int tokensPerSequence) {
        return Math.max(
                memorySeconds(numSequences, contextTokens),
                computeSeconds(numSequences, contextTokens, tokensPerSequence));
    }

    public double tokensPerSecond(long numSequences, long contextTokens) {
        return numSequences / stepSeconds(numSequences, contextTokens);
    }

    public boolean isComputeBound(long numSequences, long contextTokens) {
        return computeSeconds(numSequences, contextTokens, 1) > memorySeconds(numSequences, contextTokens);
    }

    /** The smallest batch whose decode step computes longer than it reads; empty if KV reads outgrow the arithmetic. */
    public OptionalLong computeBoundBatch(long contextTokens) {
        double computePerSequence = computeSeconds(1, contextTokens, 1);
        double readPerSequence = contextTokens * cost.kvBytesPerToken() / rates.memoryBytesPerSecond();
        double weightSeconds = cost.weightBytes() / rates.memoryBytesPerSecond();
        if (computePerSequence <= readPerSequence) {
            return OptionalLong.empty();
        }
        double batch = weightSeconds / (computePerSequence - readPerSequence);
        return batch < Long.MAX_VALUE / 2 ? OptionalLong.of((long) Math.floor(batch) + 1) : OptionalLong.empty();
    }

    /**
     * Rows of a GEMM at which its arithmetic takes as long as reading its matrix and its rows and writing the result; empty
     * if a matrix is so thin that it never does.
     */
    public OptionalDouble computeBoundRows(GemmShape gemm, Precision precision) {
        double matrix = (double) gemm.numInputs() * gemm.numOutputs();
        double rowBytes = precision.bytesPerActivation() * ((double) gemm.numInputs() + gemm.numOutputs());
        double margin = 2 * matrix - rates.flopsPerByte() * rowBytes;
        return margin <= 0
                ? OptionalDouble.empty()
                : OptionalDouble.of(rates.flopsPerByte() * precision.bytesPerParameter() * matrix / margin);
    }

    /**
     * Prompt tokens whose GEMMs fit beside a decode batch into the time that the step reads anyway (Sarathi-Serve's
     * stall-free chunk). Counts GEMMs only; 0 for a compute-bound batch.
     */
    public long freeChunkTokens(long numSequences, long contextTokens) {
        double numTokens =
                memorySeconds(numSequences, contextTokens) * rates.gemmFlopsPerSecond() / cost.gemmFlopsPerToken();
        return Math.max(0, (long) Math.floor(numTokens) - numSequences);
    }

    /** GEMMs over numTokens rows, at peak. */
    public double prefillGemmSeconds(long numTokens) {
        return numTokens * cost.gemmFlopsPerToken() / rates.gemmFlopsPerSecond();
    }

    /** Causal attention of the tokens in [firstToken, endToken) over all before them: (end² - first²) / 2 pairs. */
    public double prefillAttentionSeconds(long firstToken, long endToken) {
        double pairs = ((double) endToken * endToken - (double) firstToken * firstToken) / 2;
        return pairs * cost.attentionFlopsPerPair() / rates.attentionFlopsPerSecond();
    }

    /** Computing a prompt alone: GEMMs and causal attention, but no less than reading W and writing the KV takes. */
    public double prefillSeconds(long numTokens) {
        double memorySeconds = (cost.weightBytes() + numTokens * cost.kvBytesPerToken()) / rates.memoryBytesPerSecond();
        return Math.max(memorySeconds, prefillGemmSeconds(numTokens) + prefillAttentionSeconds(0, numTokens));
    }

    /** The largest batch whose decode step takes at most stepSeconds, memory for its KV aside; 0 if even one takes longer. */
    public long largestBatch(long contextTokens, double stepSeconds) {
        double readPerSequence = contextTokens * cost.kvBytesPerToken() / rates.memoryBytesPerSecond();
        double weightSeconds = cost.weightBytes() / rates.memoryBytesPerSecond();
        double byMemory = Math.floor((stepSeconds - weightSeconds) / readPerSequence);
        double byCompute = Math.floor(stepSeconds / computeSeconds(1, contextTokens, 1));
        return (long) Math.max(0, Math.min(byMemory, byCompute));
    }
}
