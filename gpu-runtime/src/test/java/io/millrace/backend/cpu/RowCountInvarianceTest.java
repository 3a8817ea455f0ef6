package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.kernels.Bfloat16;
import io.millrace.model.ModelDirectory;
import io.millrace.model.SafetensorsWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Steps of every number of rows from 1 to 64, and of some up to the largest token budget, on the weight shapes of
 * SmolLM2-135M: a token's KV and logits have the bits of its sequence alone. Two layers, since the KV of the second depends on
 * every product of the first, and logits on the LM head's; LM head rows vary as well.
 */
class RowCountInvarianceTest {
    private static final int LARGEST_BUDGET = 4096;
    private static final int EVERY_COUNT_UP_TO = 64;
    private static final int NUM_LARGE_COUNTS = 30;
    private static final int MAX_LOGITS_ROWS = 300;
    private static final int VOCAB = 49152;
    private static final int HIDDEN = 576;
    private static final int KV_WIDTH = 3 * 64;
    private static final int INTERMEDIATE = 1536;

    @TempDir
    static Path directory;

    private static ModelDirectory model;

    /** A sequence computed alone: its KV, and of every token the hash of its logits. */
    private record Alone(int[] tokens, int[] kv, long[] logits) {}

    @BeforeAll
    static void writeModel() throws IOException {
        Files.writeString(directory.resolve("config.json"), """
                {"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
                 "num_hidden_layers": 2, "num_attention_heads": 9, "num_key_value_heads": 3,
                 "max_position_embeddings": 2048, "tie_word_embeddings": true}
                """);
        Random random = new Random(1);
        SafetensorsWriter weights = new SafetensorsWriter();
        add(weights, random, "embed_tokens", VOCAB, HIDDEN);
        for (int layer = 0; layer < 2; layer++) {
            String prefix = "layers." + layer + ".";
            add(weights, random, prefix + "input_layernorm", HIDDEN);
            add(weights, random, prefix + "self_attn.q_proj", HIDDEN, HIDDEN);
            add(weights, random, prefix + "self_attn.k_proj", KV_WIDTH, HIDDEN);
            add(weights, random, prefix + "self_attn.v_proj", KV_WIDTH, HIDDEN);
            add(weights, random, prefix + "self_attn.o_proj", HIDDEN, HIDDEN);
            add(weights, random, prefix + "post_attention_layernorm", HIDDEN);
            add(weights, random, prefix + "mlp.gate_proj", INTERMEDIATE, HIDDEN);
            add(weights, random, prefix + "mlp.up_proj", INTERMEDIATE, HIDDEN);
            add(weights, random, prefix + "mlp.down_proj", HIDDEN, INTERMEDIATE);
        }
        add(weights, random, "norm", HIDDEN);
        weights.write(directory.resolve("model.safetensors"));
        model = ModelDirectory.open(directory);
    }

    private static void add(SafetensorsWriter weights, Random random, String module, long... shape) {
        int count = (int) Arrays.stream(shape).reduce(1, (a, b) -> a * b);
        ByteBuffer bytes = ByteBuffer.allocate(2 * count).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < count; i++) {
            float value = shape.length == 1 ? 1 : (random.nextFloat() - 0.5f) * 0.2f;
            bytes.putShort(Bfloat16.round(value));
        }
        weights.add("model." + module + ".weight", "BF16", shape, bytes.array());
    }

    @ParameterizedTest
    @EnumSource(
            value = Dtype.class,
            names = {"FLOAT32", "BFLOAT16"})
    void bitsDoNotDependOnTheNumberOfRows(Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        Random random = new Random(2);
        try (StepDriver driver = new StepDriver(model, dtype, 2)) {
            List<Alone> sequences = alone(driver, random);
            for (int numRows : rowCounts(random)) {
                try {
                    step(driver, sequences, numRows, random);
                } catch (AssertionError e) {
                    throw new AssertionError(dtype + ", " + numRows + " rows: " + e.getMessage(), e);
                }
            }
        }
    }

    private static Set<Integer> rowCounts(Random random) {
        Set<Integer> counts = new TreeSet<>();
        for (int count = 1; count <= EVERY_COUNT_UP_TO; count++) {
            counts.add(count);
        }
        counts.addAll(List.of(255, 257, LARGEST_BUDGET));
        while (counts.size() < EVERY_COUNT_UP_TO + NUM_LARGE_COUNTS) { // small ones are as likely as large ones
            double logarithm = random.nextDouble() * Math.log(LARGEST_BUDGET / (double) EVERY_COUNT_UP_TO);
            counts.add((int) (EVERY_COUNT_UP_TO * Math.exp(logarithm)));
        }
        return counts;
    }

    /** Sequences of as many tokens as the largest step has rows, each computed by a step of its own. */
    private static List<Alone> alone(StepDriver driver, Random random) {
        List<Alone> sequences = new ArrayList<>();
        for (int total = 0; total < LARGEST_BUDGET; ) {
            int[] tokens = random.ints(1 + random.nextInt(40), 0, VOCAB).toArray();
            Seq sequence = new Seq(tokens);
            driver.step(new Part(sequence, tokens.length, tokens.length));
            sequences.add(new Alone(
                    tokens,
                    driver.kvBits(sequence, model.spec()),
                    sequence.logits.stream()
                            .mapToLong(RowCountInvarianceTest::hash)
                            .toArray()));
            total += tokens.length;
        }
        return sequences;
    }

    /** One step of exactly so many rows, of sequences in random order, and the comparison. */
    private static void step(StepDriver driver, List<Alone> sequences, int numRows, Random random) {
        List<Alone> order = new ArrayList<>(sequences);
        Collections.shuffle(order, random);
        List<Part> parts = new ArrayList<>();
        int rows = 0;
        int logitsRows = 0;
        while (rows < numRows) {
            int[] tokens = order.get(parts.size()).tokens();
            int count = Math.min(numRows - rows, tokens.length);
            int numLogits = numRows <= EVERY_COUNT_UP_TO ? count : random.nextInt(Math.min(count, 4) + 1);
            numLogits = Math.min(numLogits, MAX_LOGITS_ROWS - logitsRows);
            parts.add(new Part(new Seq(tokens), count, numLogits));
            rows += count;
            logitsRows += numLogits;
        }
        driver.step(parts.toArray(new Part[0]));
        for (int i = 0; i < parts.size(); i++) {
            compare(driver, order.get(i), parts.get(i).sequence(), "sequence " + i);
        }
    }

    private static void compare(StepDriver driver, Alone expected, Seq actual, String what) {
        int numComputed = actual.numComputed;
        int[] kv = driver.kvBits(actual, model.spec());
        int perLayer = kv.length / 2;
        int perLayerAlone = expected.kv().length / 2;
        for (int layer = 0; layer < 2; layer++) {
            int first = layer * perLayer;
            int firstAlone = layer * perLayerAlone;
            assertTrue(
                    Arrays.equals(kv, first, first + perLayer, expected.kv(), firstAlone, firstAlone + perLayer),
                    what + ", KV of layer " + layer);
        }
        int numLogits = actual.logits.size();
        for (int i = 0; i < numLogits; i++) {
            int position = numComputed - numLogits + i;
            assertEquals(
                    expected.logits()[position], hash(actual.logits.get(i)), what + ", logits at position " + position);
        }
    }

    private static long hash(float[] values) {
        return IntStream.range(0, values.length)
                .mapToLong(i -> Float.floatToRawIntBits(values[i]))
                .reduce(1, (hash, bits) -> hash * 0x9E3779B97F4A7C15L + bits);
    }
}
