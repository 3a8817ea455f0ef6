package io.millrace.backend.cpu;

import io.millrace.backend.BackendConfig;
import io.millrace.backend.BatchInput;
import io.millrace.backend.Dtype;
import io.millrace.backend.LogitsRow;
import io.millrace.backend.StepTimes;
import io.millrace.model.ModelDirectory;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.RowSampling;
import io.millrace.sampling.SamplingParams;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;

/**
 * Times steps of the backend alone on random weights of the smollm2-135m shape, split into GEMM, attention, sampling and
 * the rest, beside what the machine could do at best: the same products with nothing in between, and the KV read at
 * memory bandwidth. Run its main with the test class path; arguments: scenario (decode, one for its first case, rollout, prefill, prompt for its first case, all), seconds
 * a case, dtype (AUTO), compute threads (0: all cores).
 */
final class StepBench {
    private static final int HIDDEN = 576;
    private static final int LAYERS = 30;
    private static final int MLP = 1536;
    private static final int VOCAB = 49152;
    private static final int HEADS = 9;
    private static final int KV_HEADS = 3;
    private static final int HEAD_DIM = 64;

    private StepBench() {}

    public static void main(String[] arguments) throws IOException {
        int numThreads = arguments.length > 3 ? Integer.parseInt(arguments[3]) : 0;
        String scenario = arguments.length > 0 ? arguments[0] : "all";
        double seconds = arguments.length > 1 ? Double.parseDouble(arguments[1]) : 2;
        Dtype dtype = arguments.length > 2 ? Dtype.valueOf(arguments[2]) : Dtype.AUTO;
        Path directory = randomModel();
        ModelDirectory model = ModelDirectory.open(directory);
        BackendConfig config =
                new BackendConfig(model, dtype, 16, 1L << 30, 2048, 256, 4096, numThreads, LogprobsMode.RAW_LOGPROBS);
        try (CpuBackend backend = (CpuBackend) new CpuBackendProvider().open(config)) {
            System.out.println(backend.numericFingerprint());
            double bandwidth = readBandwidth();
            System.out.printf("read bandwidth %.1f GB/s%n", bandwidth);
            if (scenario.equals("decode") || scenario.equals("all")) {
                for (int batch : new int[] {1, 8, 64}) {
                    decode(backend, batch, 1, 0, 192, seconds, bandwidth, 1);
                }
                decode(backend, 64, 1, 0, 192, seconds, bandwidth, 0);
                decode(backend, 128, 1, 0, 1024, seconds, bandwidth, 0);
            }
            if (scenario.equals("one")) {
                decode(backend, 1, 1, 0, 192, seconds, bandwidth, 1);
            }
            if (scenario.equals("rollout") || scenario.equals("all")) {
                decode(backend, 128, 16, 1024, 32, seconds, bandwidth, 1);
            }
            if (scenario.startsWith("pr")) {
                decode(backend, 8, 1, 0, 192, 2, bandwidth, 0); // warms what a prompt's last token needs
            }
            if (scenario.equals("prefill") || scenario.equals("all")) {
                prefill(backend, 1024, 1, seconds);
                prefill(backend, 128, 8, seconds);
            }
            if (scenario.equals("prompt")) {
                prefill(backend, 1024, 1, seconds);
            }
        }
    }

    /** A token each of sequences of which every few samples share the blocks of their first tokens. */
    private static void decode(
            CpuBackend backend,
            int batch,
            int samples,
            int shared,
            int own,
            double seconds,
            double bandwidth,
            float temperature) {
        int context = shared + own;
        SamplingParams params = SamplingParams.builder()
                .temperature(temperature)
                .topP(temperature == 0 ? 1 : 0.95f)
                .seed(7)
                .build();
        Random random = new Random(1);
        int sharedBlocks = shared / 16;
        int ownBlocks = (own + 15) / 16;
        int blocks = sharedBlocks + ownBlocks;
        int[] ids = new int[batch];
        int[] positions = new int[batch];
        int[] slots = new int[batch];
        int[] starts = new int[batch + 1];
        int[] lengths = new int[batch];
        int[][] tables = new int[batch][blocks];
        List<LogitsRow> rows = new ArrayList<>();
        int[] history = {1, 2, 3};
        for (int s = 0; s < batch; s++) {
            ids[s] = random.nextInt(VOCAB);
            positions[s] = context - 1;
            starts[s + 1] = s + 1;
            lengths[s] = context;
            for (int b = 0; b < blocks; b++) {
                int block = b < sharedBlocks
                        ? s / samples * sharedBlocks + b
                        : batch / samples * sharedBlocks + s * ownBlocks + b - sharedBlocks;
                tables[s][b] = block % backend.numBlocks();
            }
            slots[s] = tables[s][blocks - 1] * 16 + (context - 1) % 16;
            rows.add(LogitsRow.draw(s, new RowSampling(params, s, 5, history, 2, 3, new int[0])));
        }
        BatchInput input = new BatchInput(
                batch, ids, positions, slots, batch, starts, lengths, tables, rows, 0, new int[0], new int[0]);
        StepTimes times = run(
                backend,
                input,
                seconds,
                "decode batch " + batch + " context " + context + (samples > 1 ? " by " + samples + " shared" : "")
                        + " temperature " + temperature);
        double kvMillis = ((double) batch / samples * sharedBlocks + (double) batch * ownBlocks)
                * backend.bytesPerBlock()
                / bandwidth
                / 1e6;
        double weightMillis =
                2.0 * (VOCAB * HIDDEN + LAYERS * (HIDDEN * 960 + HIDDEN * HIDDEN + 3 * HIDDEN * MLP)) / bandwidth / 1e6;
        double products = times.gemmNanos() / 1e6;
        System.out.printf(
                "    KV at bandwidth %.2f ms, weights %.2f ms; step over (products + KV) %.2f, over (weights + KV) %.2f; %.0f tokens/s%n",
                kvMillis,
                weightMillis,
                times.totalNanos() / 1e6 / (products + kvMillis),
                times.totalNanos() / 1e6 / (weightMillis + kvMillis),
                batch * 1e9 / times.totalNanos());
    }

    private static void prefill(CpuBackend backend, int length, int batch, double seconds) {
        Random random = new Random(1);
        int blocks = (length + 15) / 16;
        int numTokens = length * batch;
        int[] ids = random.ints(numTokens, 0, VOCAB).toArray();
        int[] positions = new int[numTokens];
        int[] slots = new int[numTokens];
        int[] starts = new int[batch + 1];
        int[] lengths = new int[batch];
        int[][] tables = new int[batch][blocks];
        List<LogitsRow> rows = new ArrayList<>();
        SamplingParams greedy = SamplingParams.builder().temperature(0).build();
        for (int s = 0; s < batch; s++) {
            starts[s + 1] = (s + 1) * length;
            lengths[s] = length;
            for (int b = 0; b < blocks; b++) {
                tables[s][b] = s * blocks + b;
            }
            for (int t = 0; t < length; t++) {
                positions[s * length + t] = t;
                slots[s * length + t] = tables[s][t / 16] * 16 + t % 16;
            }
            rows.add(LogitsRow.draw(
                    (s + 1) * length - 1, new RowSampling(greedy, 0, 0, new int[] {1}, 1, 1, new int[0])));
        }
        BatchInput input = new BatchInput(
                numTokens, ids, positions, slots, batch, starts, lengths, tables, rows, 0, new int[0], new int[0]);
        StepTimes times = run(backend, input, seconds, "prefill " + batch + " x " + length);
        double flops = 2.0
                * numTokens
                * (LAYERS * HIDDEN * 960.0 + (LAYERS - 1) * (HIDDEN * HIDDEN + 3.0 * HIDDEN * MLP)); // the last for few
        double attentionFlops = 2.0 * batch * (LAYERS - 1) * HEADS * HEAD_DIM * (double) length * length;
        System.out.printf(
                "    %.0f tokens/s; products %.0f GFLOP/s, attention %.0f GFLOP/s%n",
                numTokens * 1e9 / times.totalNanos(),
                flops / times.gemmNanos(),
                attentionFlops / times.attentionNanos());
    }

    /** Best of many by total: the machine is shared. */
    private static StepTimes run(CpuBackend backend, BatchInput input, double seconds, String what) {
        long end = System.nanoTime() + (long) (seconds * 5e8);
        while (System.nanoTime() < end) {
            backend.submit(input).await();
        }
        com.sun.management.ThreadMXBean threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long allocated = allocated(threads);
        List<StepTimes> all = new ArrayList<>();
        end = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() < end || all.size() < 5) {
            all.add(backend.submit(input).await().times());
        }
        long perStep = (allocated(threads) - allocated) / all.size();
        all.sort((a, b) -> Long.compare(a.totalNanos(), b.totalNanos()));
        StepTimes times = all.get(all.size() / 10);
        System.out.printf(
                "%s: %d steps, best tenth %.2f ms (median %.2f): GEMM %.2f, attention %.2f, sampling %.2f, other %.2f; %d bytes allocated%n",
                what,
                all.size(),
                times.totalNanos() / 1e6,
                all.get(all.size() / 2).totalNanos() / 1e6,
                times.gemmNanos() / 1e6,
                times.attentionNanos() / 1e6,
                times.samplingNanos() / 1e6,
                times.otherNanos() / 1e6,
                perStep);
        return times;
    }

    private static long allocated(com.sun.management.ThreadMXBean threads) {
        long sum = 0;
        for (long id : threads.getAllThreadIds()) {
            sum += Math.max(0, threads.getThreadAllocatedBytes(id));
        }
        return sum;
    }

    /** Sums large arrays on all threads. */
    private static double readBandwidth() {
        int numThreads = Runtime.getRuntime().availableProcessors();
        long[][] data = new long[numThreads][32 << 20];
        double best = 0;
        for (int repeat = 0; repeat < 4; repeat++) {
            Thread[] threads = new Thread[numThreads];
            long start = System.nanoTime();
            for (int t = 0; t < numThreads; t++) {
                long[] mine = data[t];
                threads[t] = new Thread(() -> sink += sum(mine));
                threads[t].start();
            }
            for (Thread thread : threads) {
                try {
                    thread.join();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
            best = Math.max(best, 8.0 * numThreads * data[0].length / (System.nanoTime() - start));
        }
        return best;
    }

    private static volatile long sink;

    private static long sum(long[] data) {
        long a = 0;
        long b = 0;
        long c = 0;
        long d = 0;
        for (int repeat = 0; repeat < data.length; repeat += 4) {
            a ^= data[repeat];
            b ^= data[repeat + 1];
            c ^= data[repeat + 2];
            d ^= data[repeat + 3];
        }
        return a ^ b ^ c ^ d;
    }

    /** Writes a Llama model of random BF16 weights into a temporary directory that goes when the JVM does. */
    private static Path randomModel() throws IOException {
        Path directory = Files.createTempDirectory("millrace-step-bench");
        directory.toFile().deleteOnExit();
        Path config = directory.resolve("config.json");
        Files.writeString(config, """
                {"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
                 "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_act": "silu",
                 "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 100000.0,
                 "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}
                """);
        config.toFile().deleteOnExit();
        Map<String, long[]> shapes = new LinkedHashMap<>();
        shapes.put("model.embed_tokens.weight", new long[] {VOCAB, HIDDEN});
        for (int i = 0; i < LAYERS; i++) {
            String layer = "model.layers." + i + ".";
            shapes.put(layer + "input_layernorm.weight", new long[] {HIDDEN});
            shapes.put(layer + "self_attn.q_proj.weight", new long[] {HEADS * HEAD_DIM, HIDDEN});
            shapes.put(layer + "self_attn.k_proj.weight", new long[] {KV_HEADS * HEAD_DIM, HIDDEN});
            shapes.put(layer + "self_attn.v_proj.weight", new long[] {KV_HEADS * HEAD_DIM, HIDDEN});
            shapes.put(layer + "self_attn.o_proj.weight", new long[] {HIDDEN, HEADS * HEAD_DIM});
            shapes.put(layer + "post_attention_layernorm.weight", new long[] {HIDDEN});
            shapes.put(layer + "mlp.gate_proj.weight", new long[] {MLP, HIDDEN});
            shapes.put(layer + "mlp.up_proj.weight", new long[] {MLP, HIDDEN});
            shapes.put(layer + "mlp.down_proj.weight", new long[] {HIDDEN, MLP});
        }
        shapes.put("model.norm.weight", new long[] {HIDDEN});
        Path file = directory.resolve("model.safetensors");
        file.toFile().deleteOnExit();
        StringBuilder header = new StringBuilder("{");
        long offset = 0;
        for (Map.Entry<String, long[]> shape : shapes.entrySet()) {
            long elements = 1;
            StringBuilder dimensions = new StringBuilder();
            for (long dimension : shape.getValue()) {
                elements *= dimension;
                dimensions.append(dimensions.length() == 0 ? "" : ",").append(dimension);
            }
            header.append(header.length() == 1 ? "" : ",")
                    .append(String.format(
                            "\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%d,%d]}",
                            shape.getKey(), dimensions, offset, offset + 2 * elements));
            offset += 2 * elements;
        }
        byte[] json = header.append("}").toString().getBytes(StandardCharsets.UTF_8);
        Random random = new Random(5);
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            ByteBuffer head = ByteBuffer.allocate(8 + json.length).order(ByteOrder.LITTLE_ENDIAN);
            channel.write(head.putLong(json.length).put(json).flip());
            for (Map.Entry<String, long[]> shape : shapes.entrySet()) {
                int elements = 1;
                for (long dimension : shape.getValue()) {
                    elements *= (int) dimension;
                }
                ByteBuffer data = ByteBuffer.allocate(2 * elements).order(ByteOrder.LITTLE_ENDIAN);
                boolean isNorm = shape.getValue().length == 1;
                for (int i = 0; i < elements; i++) {
                    float value = isNorm ? 1 : (random.nextFloat() - 0.5f) * 0.14f;
                    data.putShort((short) (Float.floatToRawIntBits(value) >>> 16));
                }
                channel.write(data.flip());
            }
        }
        return directory;
    }
}
