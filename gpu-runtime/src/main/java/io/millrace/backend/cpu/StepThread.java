package io.millrace.backend.cpu;

import io.millrace.backend.BatchInput;
import io.millrace.backend.LogitsRow;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelSpec;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.Sampler;
import io.millrace.sampling.TokenLogprobs;

/**
 * One compute thread's part in the decoder: pre-norm blocks of grouped-query attention and a gated MLP (Touvron et al.,
 * LLaMA), then the LM head for the rows that need logits. Every thread runs the same program; panels, rows and attention
 * pieces are shared out as the tasks of a phase. What follows a product element by element (residual add, gate) is
 * done on the panel while it is hot.
 */
final class StepThread implements AutoCloseable {
    private static final float LOG2_E = 1.442695040888963407f;

    /** Elements of a product that are finished together: they fit into the first-level cache beside what they go to. */
    private static final int EPILOGUE_ELEMENTS = 4096;

    /** Rows of a task of row-wise work: some microseconds' worth. */
    private static final int ROWS_PER_TASK = 8;

    private final DecoderStep step;
    private final ModelSpec spec;
    private final Kernels kernels;
    private final MatmulThread products;
    private final AttentionThread attention;
    private final Sampler sampler;
    private final float queryScale;
    private final float[] row;
    private final float[] part; // of a product
    private final short[] halfScratch;
    private final float[] valuePair;
    private int[] chunkStart = new int[16];
    private int[] chunkCandidate = new int[16];
    private final Epilogue storeQueryKeyValue = this::storeQueryKeyValue;
    private final Epilogue addAttentionOutput = this::addAttentionOutput;
    private final Epilogue gate = this::gate;
    private final Epilogue addDown = this::addDown;
    private final Epilogue storeLogits = this::storeLogits;

    private ComputeThreads.Worker worker;
    private StepTimer timer;
    private DecoderWeights.Layer layer;
    private TokenRows rowsOfLayer;
    private int sliceStart;

    /** Takes the panel of a product that was computed last to where it belongs. */
    private interface Epilogue {
        void apply(int firstRow, int numRows, int firstColumn, int numColumns);
    }

    StepThread(DecoderStep step, LogprobsMode logprobsMode) {
        this.step = step;
        this.spec = step.spec;
        this.kernels = step.kernels;
        this.products = new MatmulThread(step.weights.maxTileElements());
        this.attention = new AttentionThread(
                kernels,
                step.pool,
                step.maxTokensPerPiece(),
                step.attentionState,
                step.weights.attentionShapes(),
                spec.headDim(),
                spec.numQueryHeadsPerKvHead(),
                step.queryKeyValueWidth);
        this.sampler = new Sampler(spec.vocabSize(), logprobsMode);
        this.queryScale = (float) (LOG2_E / Math.sqrt(spec.headDim()));
        int scratch = Math.max(spec.hiddenSize(), spec.intermediateSize());
        this.row = new float[scratch];
        this.part = new float[Math.max(EPILOGUE_ELEMENTS, step.weights.maxPanelWidth())];
        this.halfScratch = new short[scratch];
        this.valuePair = new float[2 * spec.numKvHeads() * spec.headDim()];
    }

    /** Runs this thread's part of the step that was begun. */
    void run(ComputeThreads.Worker onWorker) {
        worker = onWorker;
        timer = worker.index() == 0 ? step.timer : NO_TIMER.get();
        timer.begin();
        BatchInput input = step.input();
        copyBlocks(input);
        embed(input);
        timer.other();
        for (int i = 0; i < spec.numLayers(); i++) {
            layer = step.weights.layer(i);
            projectQueriesKeysValues(input, i);
            attend(input, i);
            rowsOfLayer = step.rows(i);
            feedForward();
        }
        computeLogits();
        timer.end();
    }

    private static final ThreadLocal<StepTimer> NO_TIMER = ThreadLocal.withInitial(StepTimer::new);

    private void copyBlocks(BatchInput input) {
        int numTasks = input.numCopies() == 0 ? 0 : spec.numLayers();
        for (int task = worker.firstTask(numTasks); task >= 0; task = worker.nextTask()) {
            for (int copy = 0; copy < input.numCopies(); copy++) {
                step.pool.copyBlock(task, input.copySources()[copy], input.copyDestinations()[copy]);
            }
        }
    }

    private void embed(BatchInput input) {
        int hidden = spec.hiddenSize();
        int rows = input.numTokens();
        for (int task = worker.firstTask(rowTasks(rows)); task >= 0; task = worker.nextTask()) {
            for (int r = task * ROWS_PER_TASK; r < endOfTask(task, rows); r++) {
                int id = input.tokenIds()[r];
                if (id < 0 || id >= spec.vocabSize() || input.positions()[r] > step.maxPosition) {
                    step.noteFault(
                            r,
                            "token id " + id + " at position " + input.positions()[r]
                                    + " is outside of the vocabulary (" + spec.vocabSize() + ") or the context ("
                                    + (step.maxPosition + 1) + ")",
                            null);
                    id = 0;
                }
                step.weights.embedding().readFloats((long) id * hidden, step.residual, r * hidden, hidden);
            }
        }
    }

    private static int rowTasks(int numRows) {
        return (numRows + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
    }

    private static int endOfTask(int task, int numRows) {
        return Math.min(numRows, (task + 1) * ROWS_PER_TASK);
    }

    private void projectQueriesKeysValues(BatchInput input, int layerIndex) {
        rowsOfLayer = step.allRows();
        for (sliceStart = 0; sliceStart < input.numTokens(); sliceStart += DecoderStep.MAX_SLICE_ROWS) {
            int rows = Math.min(DecoderStep.MAX_SLICE_ROWS, input.numTokens() - sliceStart);
            norm(layer.attentionNorm(), rows);
            multiply(step.normed, 0, rows, layer.queryKeyValue(), storeQueryKeyValue);
            // A row of this takes long enough that a few of them are worth sharing out.
            int share = Math.min(ROWS_PER_TASK, (rows + worker.numWorkers() - 1) / worker.numWorkers());
            for (int task = worker.firstTask((rows + share - 1) / share); task >= 0; task = worker.nextTask()) {
                for (int r = task * share; r < Math.min(rows, (task + 1) * share); r++) {
                    rotateAndStore(input, layerIndex, sliceStart + r, sliceStart + rows);
                }
            }
        }
        timer.other();
    }

    /** Norms a slice of the residual stream into the left operand of the next product. */
    private void norm(float[] weight, int rows) {
        int hidden = spec.hiddenSize();
        for (int task = worker.firstTask(rowTasks(rows)); task >= 0; task = worker.nextTask()) {
            for (int r = task * ROWS_PER_TASK; r < endOfTask(task, rows); r++) {
                int at = rowsOfLayer.token(sliceStart + r) * hidden;
                kernels.rmsNorm(step.residual, at, weight, spec.rmsNormEps(), row, 0, hidden);
                step.normed.put(r, 0, row, 0, hidden, halfScratch);
            }
        }
        timer.other();
    }

    private void rotateAndStore(BatchInput input, int layerIndex, int token, int sliceEnd) {
        float[] all = step.queryKeyValues;
        int start = token * step.queryKeyValueWidth;
        int headDim = spec.headDim();
        int half = step.rope.half();
        int position = Math.min(input.positions()[token], step.maxPosition);
        int numRotated = spec.numQueryHeads() + spec.numKvHeads();
        for (int head = 0; head < numRotated; head++) {
            kernels.rotate(all, start + head * headDim, step.rope.cos(), step.rope.sin(), position * half, half);
        }
        int keys = start + spec.numQueryHeads() * headDim;
        int values = keys + spec.numKvHeads() * headDim;
        if (step.pool.isPaired()) {
            kernels.scaleToBfloat16(all, start, queryScale, spec.numQueryHeads() * headDim);
            kernels.scaleToBfloat16(all, keys, 1f, spec.numKvHeads() * headDim);
            storePaired(input, layerIndex, token, sliceEnd, keys, values);
            return;
        }
        kernels.scale(all, start, queryScale, spec.numQueryHeads() * headDim);
        int slot = input.slotMapping()[token];
        for (int head = 0; head < spec.numKvHeads(); head++) {
            step.pool.write(layerIndex, slot, head, all, keys + head * headDim, values + head * headDim);
        }
    }

    /**
     * The values of two slots that share ints are written together, by the first one's thread, if both are in the slice.
     * Queries and keys have been rounded.
     */
    private void storePaired(BatchInput input, int layerIndex, int token, int sliceEnd, int keys, int values) {
        int[] slots = input.slotMapping();
        int slot = slots[token];
        boolean isSecond = slot % 2 != 0;
        boolean followsFirst = isSecond && token > sliceStart && slots[token - 1] == slot - 1;
        boolean leadsSecond = !isSecond && token + 1 < sliceEnd && slots[token + 1] == slot + 1;
        int width = spec.numKvHeads() * spec.headDim();
        if (!followsFirst) {
            // Rounded in a copy: another thread may be reading them too.
            System.arraycopy(step.queryKeyValues, values, valuePair, 0, width);
            if (leadsSecond) {
                System.arraycopy(step.queryKeyValues, values + step.queryKeyValueWidth, valuePair, width, width);
            }
            kernels.scaleToBfloat16(valuePair, 0, 1f, leadsSecond ? 2 * width : width);
        }
        for (int head = 0; head < spec.numKvHeads(); head++) {
            int offset = head * spec.headDim();
            step.pool.writeKey(layerIndex, slot, head, step.queryKeyValues, keys + offset);
            if (leadsSecond) {
                step.pool.writeValuePair(layerIndex, slot, head, valuePair, offset, width + offset, kernels);
            } else if (!followsFirst) {
                step.pool.writeValue(layerIndex, slot, head, valuePair, offset);
            }
        }
    }

    private void attend(BatchInput input, int layerIndex) {
        AttentionPlan plan = step.plan(layerIndex);
        int numKvHeads = spec.numKvHeads();
        for (int level = 0; level < plan.numLevels(); level++) {
            int numTasks = plan.numPieces(level) * numKvHeads;
            for (int task = worker.firstTask(numTasks); task >= 0; task = worker.nextTask()) {
                int piece = plan.piece(level, task / numKvHeads);
                attention.run(
                        plan,
                        piece,
                        layerIndex,
                        task % numKvHeads,
                        step.queryKeyValues,
                        input.positions(),
                        step.attended);
            }
        }
        timer.attention();
    }

    /** The rest of a layer. In the last one the rows stand together from the attended ones on, but keep their residuals' places. */
    private void feedForward() {
        int numRows = rowsOfLayer.numRows();
        for (sliceStart = 0; sliceStart < numRows; sliceStart += DecoderStep.MAX_SLICE_ROWS) {
            int rows = Math.min(DecoderStep.MAX_SLICE_ROWS, numRows - sliceStart);
            multiply(step.attended, sliceStart, rows, layer.attentionOutput(), addAttentionOutput);
            norm(layer.mlpNorm(), rows);
            multiply(step.normed, 0, rows, layer.gateUp(), gate);
            multiply(step.gated, 0, rows, layer.down(), addDown);
        }
    }

    /** Multiplies rows with a matrix: tasks of one panel by one chunk of rows, panel by panel so that it stays cached. */
    private void multiply(ActivationBuffer source, int firstRow, int numRows, PackedMatrix matrix, Epilogue epilogue) {
        int numChunks = chunk(matrix.rowCounts(), numRows);
        int numTasks = numChunks * matrix.numPanels();
        for (int task = worker.firstTask(numTasks); task >= 0; task = worker.nextTask()) {
            PackedPanel panel = matrix.panel(task / numChunks);
            int candidate = chunkCandidate[task % numChunks];
            int start = chunkStart[task % numChunks];
            int rows = Math.min(RowCounts.CANDIDATES[candidate], numRows - start);
            products.multiply(source, firstRow + start, candidate, panel);
            epilogue.apply(
                    start,
                    rows,
                    matrix.panelStart(task / numChunks),
                    panel.shape().width());
        }
        timer.gemm();
    }

    private int chunk(RowCounts counts, int numRows) {
        int numChunks = 0;
        int start = 0;
        while (start < numRows) {
            if (numChunks == chunkStart.length) {
                chunkStart = java.util.Arrays.copyOf(chunkStart, 2 * numChunks);
                chunkCandidate = java.util.Arrays.copyOf(chunkCandidate, 2 * numChunks);
            }
            int candidate = counts.next(numRows - start);
            chunkStart[numChunks] = start;
            chunkCandidate[numChunks++] = candidate;
            start += RowCounts.CANDIDATES[candidate];
        }
        return numChunks;
    }

    private void storeQueryKeyValue(int firstRow, int numRows, int firstColumn, int numColumns) {
        float[] bias = layer.queryKeyValueBias();
        for (int r = 0; r < numRows; r++) {
            int at = (sliceStart + firstRow + r) * step.queryKeyValueWidth + firstColumn;
            products.readProduct(r * numColumns, step.queryKeyValues, at, numColumns);
            if (bias != null) {
                kernels.add(step.queryKeyValues, at, bias, firstColumn, numColumns);
            }
        }
    }

    private void addAttentionOutput(int firstRow, int numRows, int firstColumn, int numColumns) {
        addToResidual(firstRow, numRows, firstColumn, numColumns, layer.attentionOutputBias());
    }

    private void addDown(int firstRow, int numRows, int firstColumn, int numColumns) {
        addToResidual(firstRow, numRows, firstColumn, numColumns, layer.downBias());
    }

    private void addToResidual(int firstRow, int numRows, int firstColumn, int numColumns, float[] bias) {
        int rowsOfPart = part.length / numColumns;
        for (int r = 0; r < numRows; r++) {
            int at = r % rowsOfPart * numColumns;
            if (at == 0) {
                readPart(r, numRows, numColumns);
            }
            if (bias != null) {
                kernels.add(part, at, bias, firstColumn, numColumns);
            }
            int token = rowsOfLayer.token(sliceStart + firstRow + r);
            kernels.add(step.residual, token * spec.hiddenSize() + firstColumn, part, at, numColumns);
        }
    }

    /** Reads as many rows of the product as fit. */
    private void readPart(int firstRow, int numRows, int numColumns) {
        int rows = Math.min(part.length / numColumns, numRows - firstRow);
        products.readProduct(firstRow * numColumns, part, 0, rows * numColumns);
    }

    /** The panel's first half is gate, its second the matching columns of up. */
    private void gate(int firstRow, int numRows, int firstColumn, int numColumns) {
        int half = numColumns / 2;
        int column = firstColumn / 2;
        int rowsOfPart = part.length / numColumns;
        for (int r = 0; r < numRows; r++) {
            int at = r % rowsOfPart * numColumns;
            if (at == 0) {
                readPart(r, numRows, numColumns);
            }
            if (layer.gateBias() != null) {
                kernels.add(part, at, layer.gateBias(), column, half);
                kernels.add(part, at + half, layer.upBias(), column, half);
            }
            kernels.siluMultiply(part, at, part, at + half, row, 0, half);
            step.gated.put(firstRow + r, column, row, 0, half, halfScratch);
        }
    }

    private void storeLogits(int firstRow, int numRows, int firstColumn, int numColumns) {
        for (int r = 0; r < numRows; r++) {
            int at = (firstRow + r) * spec.vocabSize() + firstColumn;
            products.readProduct(r * numColumns, step.logits, at, numColumns);
        }
    }

    /** LM head and sampling, in slices of rows, so that scoring a long prompt does not need its rows × vocabulary. */
    private void computeLogits() {
        for (int start = 0; start < step.numLogitsRows(); start += step.maxLogitsRows) {
            int rows = Math.min(step.maxLogitsRows, step.numLogitsRows() - start);
            normLogitsRows(start, rows);
            multiply(step.normed, 0, rows, step.weights.lmHead(), storeLogits);
            for (int r = worker.firstTask(rows); r >= 0; r = worker.nextTask()) {
                sample(start + r, r * spec.vocabSize());
            }
            timer.sampling();
        }
    }

    private void normLogitsRows(int start, int rows) {
        int hidden = spec.hiddenSize();
        float[] weight = step.weights.finalNorm();
        for (int task = worker.firstTask(rowTasks(rows)); task >= 0; task = worker.nextTask()) {
            for (int r = task * ROWS_PER_TASK; r < endOfTask(task, rows); r++) {
                int token = step.logitsRow(start + r).tokenIndex();
                kernels.rmsNorm(step.residual, token * hidden, weight, spec.rmsNormEps(), row, 0, hidden);
                step.normed.put(r, 0, row, 0, hidden, halfScratch);
            }
        }
        timer.other();
    }

    private void sample(int index, int offset) {
        LogitsRow wanted = step.logitsRow(index);
        step.observe(index, offset);
        float max = sampler.finiteMax(step.logits, offset);
        if (Float.isNaN(max)) {
            step.noteFault(wanted.tokenIndex(), "the model's logits are not finite (NaN or infinity)", null);
            return;
        }
        try {
            if (wanted.sampling() == null) {
                TokenLogprobs scored = sampler.score(step.logits, offset, wanted.targetTokenId(), wanted.numLogprobs());
                step.storeResult(index, wanted.targetTokenId(), scored);
            } else {
                int id = sampler.draw(step.logits, offset, max, wanted.sampling());
                step.storeResult(index, id, wanted.numLogprobs() >= 0 ? sampler.lastLogprobs() : null);
            }
        } catch (RuntimeException e) {
            step.noteFault(wanted.tokenIndex(), "drawing a token failed: " + e.getMessage(), e);
        }
    }

    @Override
    public void close() {
        products.close();
        attention.close();
    }
}
