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
 * pieces are shared out as the tasks of a phase. What follows a product element by element (bias, residual add, gate) the
 * matrix library does while it has the elements in registers.
 */
final class StepThread implements AutoCloseable {
    private static final float LOG2_E = 1.442695040888963407f;

    /** Makes the tile lie on huge pages: its rows are far apart. */
    private static final int MIN_TILE_ELEMENTS = (int) (HugePages.SIZE_BYTES / Float.BYTES);

    /** Rows of a task of row-wise work at most: a block of keys, whose tokens share cache lines. */
    private static final int MAX_ROWS_PER_TASK = Kernels.BLOCK_SIZE;

    /** Of row-wise work that a worker has at least, where rows are many enough. */
    private static final int TASKS_PER_WORKER = 8;

    private final DecoderStep step;
    private final ModelSpec spec;
    private final Kernels kernels;
    private final MatmulThread products;
    private final SingleRowProducts singleRows;
    private final AttentionThread attention;
    private final Sampler sampler;
    private final float queryScale;
    private final float[] row; // of the residual stream, or one token's q, k, v and, behind, the next one's v
    private final short[] halfScratch;
    private int[] chunkStart = new int[16];
    private int[] chunkCandidate = new int[16];

    private ComputeThreads.Worker worker;
    private StepTimer timer;
    private DecoderWeights.Layer layer;

    StepThread(DecoderStep step, LogprobsMode logprobsMode) {
        this.step = step;
        this.spec = step.spec;
        this.kernels = step.kernels;
        this.products = new MatmulThread(Math.max(MIN_TILE_ELEMENTS, step.weights.maxTileElements()));
        this.singleRows =
                new SingleRowProducts(step.weights.maxDepth(), DecoderWeights.maxPanelWidth(), products.stream());
        this.attention = new AttentionThread(
                kernels,
                step.pool,
                step.maxTokensPerPiece(),
                step.attentionState,
                step.weights.attentionShapes(),
                spec.headDim(),
                spec.numKvHeads(),
                spec.numQueryHeadsPerKvHead(),
                spec.numQueryHeads() * spec.headDim());
        this.sampler = new Sampler(spec.vocabSize(), logprobsMode);
        this.queryScale = (float) (LOG2_E / Math.sqrt(spec.headDim()));
        int valueWidth = spec.numKvHeads() * spec.headDim();
        this.row = new float[Math.max(spec.hiddenSize(), DecoderWeights.queryKeyValueWidth(spec) + valueWidth)];
        this.halfScratch = new short[spec.hiddenSize()];
    }

    /** Runs this thread's part of the step that was begun. */
    void run(ComputeThreads.Worker onWorker) {
        worker = onWorker;
        timer = worker.index() == 0 ? step.timer : NO_TIMER.get();
        timer.begin();
        BatchInput input = step.input();
        singleRows.beginStep(input.numTokens());
        copyBlocks(input);
        embed(input);
        timer.other();
        for (int i = 0; i < spec.numLayers(); i++) {
            layer = step.weights.layer(i);
            projectQueriesKeysValues(input, i);
            attend(input, i);
            if (step.isLastOfFew(i)) {
                gatherResiduals(step.rows(i));
            }
            feedForward(step.rows(i).numRows());
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
            for (int r = firstOfTask(task, rows); r < firstOfTask(task + 1, rows); r++) {
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
                step.weights.embedding().readFloats((long) id * hidden, row, 0, hidden);
                step.residual.put(r, 0, row, 0, hidden);
            }
        }
    }

    private int rowsPerTask(int numRows) {
        return Math.max(1, Math.min(MAX_ROWS_PER_TASK, numRows / (TASKS_PER_WORKER * worker.numWorkers())));
    }

    private int rowTasks(int numRows) {
        return (numRows + rowsPerTask(numRows) - 1) / rowsPerTask(numRows);
    }

    private int firstOfTask(int task, int numRows) {
        return Math.min(numRows, task * rowsPerTask(numRows));
    }

    private void projectQueriesKeysValues(BatchInput input, int layerIndex) {
        int rows;
        for (int start = 0; start < input.numTokens(); start += rows) {
            rows = step.sliceRows(input.numTokens() - start);
            norm(layer.attentionNorm(), start, rows);
            multiply(step.normed, 0, rows, layer.queryKeyValue(), step.queryKeyValues, 0);
            for (int task = worker.firstTask(rowTasks(rows)); task >= 0; task = worker.nextTask()) {
                for (int r = firstOfTask(task, rows); r < firstOfTask(task + 1, rows); r++) {
                    rotateAndStore(input, layerIndex, start, r, rows);
                }
            }
        }
        timer.other();
    }

    /** Norms a slice of the residual stream into the left operand of the next product. */
    private void norm(float[] weight, int start, int rows) {
        for (int task = worker.firstTask(rowTasks(rows)); task >= 0; task = worker.nextTask()) {
            for (int r = firstOfTask(task, rows); r < firstOfTask(task + 1, rows); r++) {
                normRow(weight, start + r, r);
            }
        }
        timer.other();
    }

    private void normRow(float[] weight, int residualRow, int normedRow) {
        int hidden = spec.hiddenSize();
        step.residual.get(residualRow, 0, row, 0, hidden);
        if (step.normed.format() == NumberFormat.BFLOAT16) {
            kernels.rmsNormToBfloat16(row, 0, weight, spec.rmsNormEps(), halfScratch, 0, hidden);
            step.normed.putHalves(normedRow, halfScratch, hidden);
        } else {
            kernels.rmsNorm(row, 0, weight, spec.rmsNormEps(), row, 0, hidden);
            step.normed.put(normedRow, 0, row, 0, hidden);
        }
    }

    /** Takes a slice's row of queries, keys and values to where attention reads them. */
    private void rotateAndStore(BatchInput input, int layerIndex, int sliceStart, int sliceRow, int sliceRows) {
        int token = sliceStart + sliceRow;
        int headDim = spec.headDim();
        int half = step.rope.half();
        int position = Math.min(input.positions()[token], step.maxPosition);
        int numRotated = spec.numQueryHeads() + spec.numKvHeads();
        int keys = spec.numQueryHeads() * headDim;
        int values = numRotated * headDim;
        boolean isPaired = step.pool.isPaired();
        step.queryKeyValues.get(sliceRow, 0, row, 0, isPaired ? values : step.queryKeyValues.width());
        for (int head = 0; head < numRotated; head++) {
            kernels.rotate(row, head * headDim, step.rope.cos(), step.rope.sin(), position * half, half);
        }
        if (isPaired) {
            kernels.scaleToBfloat16(row, 0, queryScale, step.queries, token * keys, keys);
            kernels.scaleToBfloat16(row, keys, 1f, row, keys, values - keys);
            storePaired(input.slotMapping(), layerIndex, token, sliceRow, sliceRows, keys, values);
            return;
        }
        kernels.scale(row, 0, queryScale, keys);
        System.arraycopy(row, 0, step.queries, token * keys, keys);
        int slot = input.slotMapping()[token];
        for (int head = 0; head < spec.numKvHeads(); head++) {
            step.pool.write(layerIndex, slot, head, row, keys + head * headDim, values + head * headDim);
        }
    }

    /**
     * The values of two slots that share ints are written together, by the first one's thread, if both are in the slice. Keys
     * have been rounded.
     */
    private void storePaired(
            int[] slots, int layerIndex, int token, int sliceRow, int sliceRows, int keys, int values) {
        int slot = slots[token];
        boolean isSecond = slot % 2 != 0;
        boolean followsFirst = isSecond && sliceRow > 0 && slots[token - 1] == slot - 1;
        boolean leadsSecond = !isSecond && sliceRow + 1 < sliceRows && slots[token + 1] == slot + 1;
        int width = spec.numKvHeads() * spec.headDim();
        int secondValues = values + width;
        if (!followsFirst) {
            step.queryKeyValues.get(sliceRow, values, row, values, width);
        }
        if (leadsSecond) {
            step.queryKeyValues.get(sliceRow + 1, values, row, secondValues, width);
        }
        for (int head = 0; head < spec.numKvHeads(); head++) {
            int at = head * spec.headDim();
            step.pool.writeKey(layerIndex, slot, head, row, keys + at);
            if (leadsSecond) {
                step.pool.writeValuePair(layerIndex, slot, head, row, values + at, secondValues + at, kernels);
            } else if (!followsFirst) {
                step.pool.writeValue(layerIndex, slot, head, row, values + at, kernels);
            }
        }
    }

    private void attend(BatchInput input, int layerIndex) {
        AttentionPlan plan = step.plan(layerIndex);
        for (int level = 0; level < plan.numLevels(); level++) {
            for (int task = worker.firstTask(plan.numTasks(level)); task >= 0; task = worker.nextTask()) {
                attention.run(
                        plan,
                        level,
                        plan.firstUnit(level, task),
                        plan.firstUnit(level, task + 1),
                        layerIndex,
                        step.queries,
                        input.positions(),
                        step.attended);
            }
        }
        timer.attention();
    }

    /** Moves the residuals of the last layer's rows together, as attention leaves them. */
    private void gatherResiduals(TokenRows rows) {
        int numTasks = rows.numRows() == 0 ? 0 : 1;
        for (int task = worker.firstTask(numTasks); task >= 0; task = worker.nextTask()) {
            for (int r = 0; r < rows.numRows(); r++) {
                step.residual.get(rows.token(r), 0, row, 0, spec.hiddenSize());
                step.residual.put(r, 0, row, 0, spec.hiddenSize());
            }
        }
        timer.other();
    }

    /** The rest of a layer. */
    private void feedForward(int numRows) {
        int rows;
        for (int start = 0; start < numRows; start += rows) {
            rows = step.sliceRows(numRows - start);
            multiply(step.attended, start, rows, layer.attentionOutput(), step.residual, start);
            norm(layer.mlpNorm(), start, rows);
            gate(rows);
            multiply(step.gated, 0, rows, layer.down(), step.residual, start);
        }
    }

    /** Multiplies rows with a matrix: tasks of one panel by chunks of rows, panel by panel so that it stays cached. */
    private void multiply(
            ActivationBuffer source,
            int firstRow,
            int numRows,
            PackedMatrix matrix,
            ActivationBuffer target,
            int targetRow) {
        int numChunks = chunk(step.weights.rowCounts(), numRows);
        int chunksPerTask = chunksPerTask(matrix, numChunks);
        int tasksPerPanel = numChunks / chunksPerTask;
        singleRows.begin();
        for (int task = worker.firstTask(tasksPerPanel * matrix.numPanels()); task >= 0; task = worker.nextTask()) {
            PackedPanel panel = matrix.panel(task / tasksPerPanel);
            int column = matrix.panelStart(task / tasksPerPanel);
            if (singleRows.takes(numRows, panel)
                    && singleRows.multiply(source, firstRow, panel, target, targetRow, column)) {
                continue;
            }
            int first = task % tasksPerPanel * chunksPerTask;
            for (int chunk = first; chunk < first + chunksPerTask; chunk++) {
                int start = chunkStart[chunk];
                products.multiply(
                        source, firstRow + start, chunkCandidate[chunk], panel, target, targetRow + start, column);
            }
        }
        timer.gemm();
    }

    /**
     * One chunk, so that tasks are many; or all of them, where the thread of every task would widen the panel again, and panels by
     * themselves share out well.
     */
    private int chunksPerTask(PackedMatrix matrix, int numChunks) {
        int numWorkers = worker.numWorkers();
        boolean shareOut = matrix.numPanels() % numWorkers == 0 || matrix.numPanels() >= TASKS_PER_WORKER * numWorkers;
        return matrix.isWidened() && shareOut ? numChunks : 1;
    }

    /** Multiplies the normed rows with up and gate: a panel of up into the thread's tile, which the panel of gate takes up. */
    private void gate(int numRows) {
        int numChunks = chunk(step.weights.rowCounts(), numRows);
        int chunksPerTask = chunksPerTask(layer.gate(), numChunks);
        int tasksPerPanel = numChunks / chunksPerTask;
        int numTasks = tasksPerPanel * layer.gate().numPanels();
        products.keepUp(chunksPerTask > 1);
        singleRows.begin();
        for (int task = worker.firstTask(numTasks); task >= 0; task = worker.nextTask()) {
            PackedPanel up = layer.up().panel(task / tasksPerPanel);
            PackedPanel gate = layer.gate().panel(task / tasksPerPanel);
            int column = layer.gate().panelStart(task / tasksPerPanel);
            if (singleRows.takes(numRows, gate) && singleRows.gate(step.normed, 0, up, gate, step.gated, 0, column)) {
                continue;
            }
            int first = task % tasksPerPanel * chunksPerTask;
            for (int chunk = first; chunk < first + chunksPerTask; chunk++) {
                int start = chunkStart[chunk];
                products.multiply(step.normed, start, chunkCandidate[chunk], up);
                products.multiply(step.normed, start, chunkCandidate[chunk], gate, step.gated, start, column);
            }
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

    /** LM head and sampling, in slices of rows, so that scoring a long prompt does not need its rows × vocabulary. */
    private void computeLogits() {
        for (int start = 0; start < step.numLogitsRows(); start += step.maxLogitsRows) {
            int rows = Math.min(step.maxLogitsRows, step.numLogitsRows() - start);
            normLogitsRows(start, rows);
            multiplyWithHead(rows);
            for (int r = worker.firstTask(rows); r >= 0; r = worker.nextTask()) {
                sample(start + r, r * spec.vocabSize());
            }
            timer.sampling();
        }
    }

    /** Multiplies the normed rows with the LM head, and copies the products out of the tile row by row. */
    private void multiplyWithHead(int numRows) {
        PackedMatrix matrix = step.weights.lmHead();
        int numChunks = chunk(step.weights.rowCounts(), numRows);
        int numTasks = numChunks * matrix.numPanels();
        singleRows.begin();
        for (int task = worker.firstTask(numTasks); task >= 0; task = worker.nextTask()) {
            PackedPanel panel = matrix.panel(task / numChunks);
            int column = matrix.panelStart(task / numChunks);
            if (singleRows.takes(numRows, panel) && singleRows.multiply(step.normed, 0, panel, step.logits, column)) {
                continue;
            }
            int candidate = chunkCandidate[task % numChunks];
            int start = chunkStart[task % numChunks];
            int width = panel.shape().width();
            products.multiply(step.normed, start, candidate, panel);
            for (int r = 0; r < Math.min(RowCounts.CANDIDATES[candidate], numRows - start); r++) {
                int at = (start + r) * spec.vocabSize() + column;
                products.readProduct(r * width, step.logits, at, width);
            }
        }
        timer.gemm();
    }

    private void normLogitsRows(int start, int rows) {
        for (int task = worker.firstTask(rowTasks(rows)); task >= 0; task = worker.nextTask()) {
            for (int r = firstOfTask(task, rows); r < firstOfTask(task + 1, rows); r++) {
                normRow(step.weights.finalNorm(), step.residualRow(start + r), r);
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
        singleRows.close();
        products.close();
        attention.close();
    }
}
