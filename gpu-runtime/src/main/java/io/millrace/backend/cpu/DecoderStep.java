package io.millrace.backend.cpu;

import io.millrace.backend.BatchInput;
import io.millrace.backend.LogitsRow;
import io.millrace.engine.InvalidConfigException;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelSpec;
import io.millrace.sampling.TokenLogprobs;
import java.util.List;

/**
 * What the compute threads share during a step of one backend: weights, KV pool, activations and results. The arrays are
 * allocated once, for the largest step; those between two products only for a slice of its rows, so that they stay in
 * cache and memory does not grow with the token budget.
 *
 * <p>{@link #begin} and {@link #end} are for the engine thread, between steps; the rest for compute threads.
 */
final class DecoderStep implements AutoCloseable {
    /** Rows that go through a layer's products together. */
    static final int MAX_SLICE_ROWS = 512;

    private static final long MAX_LOGITS_BYTES = 32L << 20;

    final ModelSpec spec;
    final DecoderWeights weights;
    final Kernels kernels;
    final KvPool pool;
    final RopeTable rope;
    final AttentionState attentionState;
    final StepTimer timer = new StepTimer();

    /** The residual stream, [tokens][hidden]; in the last layer, of the tokens that go through all of it alone. */
    final ActivationBuffer residual;

    /** Rotated and scaled queries of every token, [tokens][query heads × head dim]. */
    final float[] queries;

    /** q, k, v of a slice's tokens, [rows][queryKeyValueWidth]. */
    final ActivationBuffer queryKeyValues;

    final ActivationBuffer normed;
    final ActivationBuffer attended;
    final ActivationBuffer gated;

    /** [maxLogitsRows][vocabulary]. */
    final float[] logits;

    final int maxLogitsRows;
    private final int maxFullSliceRows;
    final int maxPosition;

    private final LogitsObserver observer;
    private final TokenRows allRows = new TokenRows();
    private final TokenRows wantedRows = new TokenRows();
    private final AttentionPlan plan;
    private final AttentionPlan wantedPlan;
    private boolean isAllWanted;
    private BatchInput input;
    private List<LogitsRow> logitsRows;
    private int[] tokenIds;
    private TokenLogprobs[] logprobs;
    private SequenceFault fault;

    /** A fault traced to a sequence of the batch. */
    record SequenceFault(int sequence, String message, RuntimeException cause) {}

    DecoderStep(
            ModelSpec spec,
            DecoderWeights weights,
            Kernels kernels,
            KvPool pool,
            RopeTable rope,
            int maxNumBatchedTokens,
            int maxModelLen,
            int numThreads,
            boolean sharesReads,
            LogitsObserver observer) {
        this.spec = spec;
        this.weights = weights;
        this.kernels = kernels;
        this.pool = pool;
        this.observer = observer;
        this.maxPosition = maxModelLen - 1;
        this.rope = rope;
        this.plan = new AttentionPlan(spec.numKvHeads(), spec.numQueryHeadsPerKvHead(), numThreads, sharesReads);
        this.wantedPlan = new AttentionPlan(spec.numKvHeads(), spec.numQueryHeadsPerKvHead(), numThreads, sharesReads);
        this.attentionState = new AttentionState(spec.numQueryHeads(), spec.headDim());
        int attendedWidth = spec.numQueryHeads() * spec.headDim();
        int sliceRows = Math.min(MAX_SLICE_ROWS, maxNumBatchedTokens);
        NumberFormat format = weights.format();
        checkBufferSizes(spec, format, maxNumBatchedTokens);
        NumberFormat wide = NumberFormat.FLOAT32;
        this.maxFullSliceRows = weights.rowCounts().mostWithoutPadding(MAX_SLICE_ROWS);
        this.residual = new ActivationBuffer(maxNumBatchedTokens, spec.hiddenSize(), wide, kernels);
        this.queries = new float[Math.multiplyExact(maxNumBatchedTokens, attendedWidth)];
        this.queryKeyValues = new ActivationBuffer(sliceRows, DecoderWeights.queryKeyValueWidth(spec), wide, kernels);
        this.normed = new ActivationBuffer(sliceRows, spec.hiddenSize(), format, kernels);
        this.attended = new ActivationBuffer(maxNumBatchedTokens, attendedWidth, format, kernels);
        this.gated = new ActivationBuffer(sliceRows, spec.intermediateSize(), format, kernels);
        long fittingRows = Math.max(RowCounts.ANCHOR, MAX_LOGITS_BYTES / (4L * spec.vocabSize()));
        this.maxLogitsRows = (int) Math.min(sliceRows, fittingRows);
        this.logits = new float[Math.multiplyExact(maxLogitsRows, spec.vocabSize())];
    }

    /** Buffers outside of the Java heap hold up to 2 GiB each, the rows included that others are rounded up to. */
    private static void checkBufferSizes(ModelSpec spec, NumberFormat format, int maxNumBatchedTokens) {
        int attendedWidth = spec.numQueryHeads() * spec.headDim();
        long bytesOfToken = Math.max(4L * spec.hiddenSize(), (long) format.bytes() * attendedWidth);
        long maxTokens = Integer.MAX_VALUE / bytesOfToken - RowCounts.LARGEST;
        long bytesOfSliceRow = 4L * DecoderWeights.queryKeyValueWidth(spec);
        long maxSliceRows = Integer.MAX_VALUE / bytesOfSliceRow - RowCounts.LARGEST;
        if (maxSliceRows < MAX_SLICE_ROWS) {
            maxTokens = Math.min(maxTokens, maxSliceRows);
        }
        if (maxNumBatchedTokens > maxTokens) {
            throw new InvalidConfigException(
                    "--max-num-batched-tokens",
                    maxNumBatchedTokens,
                    "a step's residual stream, queries, keys and values must fit buffers of 2 GiB: at most " + maxTokens
                            + " tokens of this model",
                    "lower it");
        }
    }

    void begin(BatchInput batch) {
        wantedRows.setWanted(batch);
        allRows.setAll(batch);
        input = batch;
        logitsRows = batch.logitsRows();
        tokenIds = new int[logitsRows.size()];
        logprobs = new TokenLogprobs[logitsRows.size()];
        fault = null;
        plan.build(batch, allRows);
        isAllWanted = wantedRows.numRows() == allRows.numRows();
        if (!isAllWanted) {
            wantedPlan.build(batch, wantedRows);
        }
        attentionState.ensureSlots(Math.max(plan.numStateSlots(), isAllWanted ? 0 : wantedPlan.numStateSlots()));
    }

    int maxTokensPerPiece() {
        return plan.maxTokensPerPiece();
    }

    TokenRows allRows() {
        return allRows;
    }

    /** The rows that go through all of a layer: in the last one, those whose logits are wanted. */
    TokenRows rows(int layer) {
        return isLastOfFew(layer) ? wantedRows : allRows;
    }

    /** The attention of {@link #rows}. */
    AttentionPlan plan(int layer) {
        return isLastOfFew(layer) ? wantedPlan : plan;
    }

    /** The row of a logits row's token in the residual stream after the last layer. */
    int residualRow(int logitsRow) {
        return wantedRows.rowOfLogits(logitsRow);
    }

    /** Rows of the slice that begins where so many remain: if more follow, none that is padding, which would change them. */
    int sliceRows(int numRemaining) {
        return numRemaining <= MAX_SLICE_ROWS ? numRemaining : maxFullSliceRows;
    }

    boolean isLastOfFew(int layer) {
        return !isAllWanted && layer == spec.numLayers() - 1;
    }

    /** KV blocks of single layers that the step's attention reads, each counted as often as it is read. */
    long numLayerBlockReads() {
        int last = spec.numLayers() - 1;
        return last * plan.numBlockReads() + plan(last).numBlockReads();
    }

    BatchInput input() {
        return input;
    }

    int numLogitsRows() {
        return logitsRows.size();
    }

    LogitsRow logitsRow(int row) {
        return logitsRows.get(row);
    }

    void observe(int row, int offset) {
        observer.observe(row, logits, offset);
    }

    void storeResult(int row, int tokenId, TokenLogprobs ofToken) {
        tokenIds[row] = tokenId;
        logprobs[row] = ofToken;
    }

    /** Notes a fault of the sequence that owns a token; of several, the first sequence's is kept. */
    synchronized void noteFault(int token, String message, RuntimeException cause) {
        int sequence = 0;
        while (input.queryStarts()[sequence + 1] <= token) {
            sequence++;
        }
        if (fault == null || sequence < fault.sequence()) {
            fault = new SequenceFault(sequence, message, cause);
        }
    }

    synchronized SequenceFault fault() {
        return fault;
    }

    int[] tokenIds() {
        return tokenIds;
    }

    TokenLogprobs[] logprobs() {
        return logprobs;
    }

    /** Lets go of the engine's arrays. */
    void end() {
        input = null;
        logitsRows = null;
    }

    @Override
    public void close() {
        residual.close();
        queryKeyValues.close();
        normed.close();
        attended.close();
        gated.close();
    }
}
