package io.millrace.backend.cpu;

import io.millrace.backend.BackendConfig;
import io.millrace.backend.BatchInput;
import io.millrace.backend.Dtype;
import io.millrace.backend.KvCacheDtype;
import io.millrace.backend.LogitsRow;
import io.millrace.backend.StepOutput;
import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec;
import io.millrace.model.RopeSpec;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.RowSampling;
import io.millrace.sampling.SamplingParams;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;

/** Drives a CPU backend by hand-made steps and keeps every row of logits it sees. One thread. */
final class StepDriver implements AutoCloseable {
    private final CpuBackend backend;
    private final Map<Integer, float[]> logitsOfRow = new ConcurrentHashMap<>();
    private final int vocabSize;
    private int nextBlock;
    private StepOutput lastOutput;

    /** A sequence by its tokens and the blocks it may write. */
    static final class Seq {
        int[] tokens;
        int[] table = {};
        int numComputed;
        SamplingParams params =
                SamplingParams.builder().temperature(0).maxTokens(1 << 20).build();
        final List<float[]> logits = new ArrayList<>();

        Seq(int... tokens) {
            this.tokens = tokens;
        }

        void append(int token) {
            tokens = Arrays.copyOf(tokens, tokens.length + 1);
            tokens[tokens.length - 1] = token;
        }
    }

    /** How many of a sequence's next tokens to compute; logits of the last numLogits of them are kept. */
    record Part(Seq sequence, int numTokens, int numLogits) {}

    StepDriver(ModelDirectory model, Dtype dtype, int numThreads) {
        this(
                model,
                dtype,
                numThreads,
                KernelChoice.best().kernels(),
                model.spec().rope());
    }

    StepDriver(ModelDirectory model, Dtype dtype, int numThreads, Kernels kernels, RopeSpec rope) {
        this(model, dtype, KvCacheDtype.AUTO, numThreads, kernels, rope);
    }

    StepDriver(
            ModelDirectory model,
            Dtype dtype,
            KvCacheDtype kvCacheDtype,
            int numThreads,
            Kernels kernels,
            RopeSpec rope) {
        vocabSize = model.spec().vocabSize();
        BackendConfig config = new BackendConfig(
                model, dtype, 16, 64L << 20, 4096, 256, 2048, numThreads, LogprobsMode.RAW_LOGPROBS, kvCacheDtype);
        NumberFormat format = CpuBackendProvider.chooseFormat(config, OneDnn.hasBfloat16());
        backend = CpuBackend.open(
                config,
                format,
                kernels,
                rope,
                (row, logits, offset) -> logitsOfRow.put(row, Arrays.copyOfRange(logits, offset, offset + vocabSize)));
    }

    static BackendConfig config(ModelDirectory model, Dtype dtype, int numThreads, long kvBytes) {
        return new BackendConfig(model, dtype, 16, kvBytes, 4096, 256, 2048, numThreads, LogprobsMode.RAW_LOGPROBS);
    }

    CpuBackend backend() {
        return backend;
    }

    StepOutput lastOutput() {
        return lastOutput;
    }

    /** Gives the sequence blocks of its own up to a length; those it has stay. */
    void allocate(Seq sequence, int length) {
        int have = sequence.table.length;
        int need = (length + 15) / 16;
        if (need > have) {
            sequence.table = Arrays.copyOf(sequence.table, need);
            for (int i = have; i < need; i++) {
                sequence.table[i] = nextBlock++ % backend.numBlocks();
            }
        }
    }

    /** Makes a sequence that shares the whole blocks of another's first tokens and has them computed. */
    Seq fork(Seq parent, int numShared, int... more) {
        if (numShared % 16 != 0) {
            throw new IllegalArgumentException("share whole blocks, not " + numShared + " tokens");
        }
        int[] tokens = Arrays.copyOf(parent.tokens, numShared + more.length);
        System.arraycopy(more, 0, tokens, numShared, more.length);
        Seq child = new Seq(tokens);
        child.table = Arrays.copyOf(parent.table, numShared / 16);
        child.numComputed = numShared;
        return child;
    }

    /** Bits of all keys and values of a sequence's computed tokens, over all layers. */
    int[] kvBits(Seq sequence, ModelSpec spec) {
        KvPool pool = backend.pool();
        int headDim = spec.headDim();
        IntStream.Builder bits = IntStream.builder();
        for (int layer = 0; layer < spec.numLayers(); layer++) {
            for (int position = 0; position < sequence.numComputed; position++) {
                for (int head = 0; head < spec.numKvHeads(); head++) {
                    int block = sequence.table[position / 16];
                    int key = pool.keyOffset(block, head) + position % 16;
                    int value = pool.valueOffset(block, head);
                    for (int d = 0; d < headDim; d++) {
                        if (pool.isPaired()) {
                            if (d % 2 == 0) {
                                bits.add(pool.pairs(layer)[key + d / 2 * 16]);
                            }
                            int pair = pool.pairs(layer)[value + Bfloat16.valuePair(position % 16, d, headDim)];
                            bits.add(position % 2 == 0 ? pair << 16 : pair & 0xffff0000);
                        } else {
                            bits.add(floatBits(pool.floats(layer)[key + d * 16]));
                            bits.add(floatBits(pool.floats(layer)[value + position % 16 * headDim + d]));
                        }
                    }
                }
            }
        }
        return bits.build().toArray();
    }

    private static int floatBits(float value) {
        return Float.floatToRawIntBits(value);
    }

    /** Runs one step; returns the drawn ids, one per part that keeps logits. */
    int[] step(Part... parts) {
        BatchInput input = build(parts);
        logitsOfRow.clear();
        lastOutput = backend.submit(input).await();
        int row = 0;
        int[] drawn = new int[parts.length];
        for (int p = 0; p < parts.length; p++) {
            for (int i = 0; i < parts[p].numLogits; i++) {
                parts[p].sequence.logits.add(logitsOfRow.get(row));
                drawn[p] = lastOutput.tokenIds()[row++];
            }
            parts[p].sequence.numComputed += parts[p].numTokens;
        }
        return drawn;
    }

    BatchInput build(Part... parts) {
        int numTokens = 0;
        for (Part part : parts) {
            allocate(part.sequence, part.sequence.numComputed + part.numTokens);
            numTokens += part.numTokens;
        }
        int[] ids = new int[numTokens];
        int[] positions = new int[numTokens];
        int[] slots = new int[numTokens];
        int[] starts = new int[parts.length + 1];
        int[] lengths = new int[parts.length];
        int[][] tables = new int[parts.length][];
        List<LogitsRow> rows = new ArrayList<>();
        int at = 0;
        for (int p = 0; p < parts.length; p++) {
            Seq sequence = parts[p].sequence;
            for (int i = 0; i < parts[p].numTokens; i++, at++) {
                positions[at] = sequence.numComputed + i;
                ids[at] = sequence.tokens[positions[at]];
                slots[at] = sequence.table[positions[at] / 16] * 16 + positions[at] % 16;
                if (i >= parts[p].numTokens - parts[p].numLogits) {
                    rows.add(LogitsRow.draw(
                            at,
                            new RowSampling(
                                    sequence.params,
                                    0,
                                    positions[at],
                                    sequence.tokens,
                                    1,
                                    positions[at] + 1,
                                    new int[0])));
                }
            }
            starts[p + 1] = at;
            lengths[p] = sequence.numComputed + parts[p].numTokens;
            tables[p] = sequence.table;
        }
        return new BatchInput(
                numTokens,
                ids,
                positions,
                slots,
                parts.length,
                starts,
                lengths,
                tables,
                rows,
                0,
                new int[0],
                new int[0]);
    }

    @Override
    public void close() {
        backend.close();
    }
}
