package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelDirectory;
import io.millrace.model.SafetensorsWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Panels held as bfloat16 and widened beside the product, against panels held as float32: the same bits. */
class PanelWideningTest {
    private static final int[][] SHAPES = { // depth, width
        {576, 240},
        {576, 192},
        {1536, 96},
        {577, 144},
        {333, 80},
        {64, 16},
        {100, 33},
        {17, 7},
        {2048, 112},
    };

    private static final int VOCAB = 320;
    private static final int HIDDEN = 192;
    private static final int KV_WIDTH = 64;
    private static final int INTERMEDIATE = 336;

    private final Kernels kernels = KernelChoice.best().kernels();

    @TempDir
    Path directory;

    @BeforeEach
    void needsAvx512() {
        assumeTrue(MatmulShape.canWiden(), "panels are float32 here");
        OneDnn.useOneThreadPerCall();
    }

    @Test
    void bitsAreThoseOfFloat32Panels() {
        Random random = new Random(1);
        for (int[] sizes : SHAPES) {
            for (ProductEnd end : ProductEnd.values()) {
                for (boolean hasBias : new boolean[] {false, true}) {
                    compare(sizes[0], sizes[1], end, hasBias, random);
                }
            }
        }
    }

    /** Two panels in turn, and each of them at several row counts, by one thread. */
    private void compare(int depth, int width, ProductEnd end, boolean hasBias, Random random) {
        int stride = 2 * width;
        int numRows = RowCounts.LARGEST;
        try (MatmulShape wide = new MatmulShape(depth, width, NumberFormat.FLOAT32, end, stride, hasBias);
                MatmulShape held = new MatmulShape(
                        depth, width, NumberFormat.FLOAT32, NumberFormat.BFLOAT16, end, stride, hasBias);
                MatmulThread thread = new MatmulThread(numRows * stride);
                NativeArena arena = new NativeArena(1 << 20);
                ActivationBuffer source = new ActivationBuffer(numRows, depth, NumberFormat.FLOAT32, kernels);
                ActivationBuffer target = new ActivationBuffer(numRows, stride, NumberFormat.FLOAT32, kernels)) {
            assertEquals(wide.packedBytes(), 2 * held.packedBytes(), wide.toString());
            for (int r = 0; r < numRows; r++) {
                source.put(r, 0, gaussian(depth, random), 0, depth);
            }
            float[] met = gaussian(numRows * stride, random);
            PackedPanel[] wides = new PackedPanel[2];
            PackedPanel[] helds = new PackedPanel[2];
            for (int i = 0; i < 2; i++) {
                float[] bias = gaussian(width, random);
                short[] halves = new short[depth * width];
                for (int j = 0; j < halves.length; j++) {
                    halves[j] = Bfloat16.round((float) random.nextGaussian());
                }
                wides[i] = pack(wide, halves, bias, arena, thread);
                helds[i] = pack(held, halves, bias, arena, thread);
            }
            for (int candidate = 0; candidate < RowCounts.CANDIDATES.length; candidate++) {
                for (int i = 0; i < 2; i++) {
                    int[] expected = product(thread, source, candidate, wides[i], target, met);
                    int[] actual = product(thread, source, candidate, helds[i], target, met);
                    assertArrayEquals(expected, actual, held + ", " + RowCounts.CANDIDATES[candidate] + " rows");
                }
            }
            for (int i = 0; i < 2; i++) {
                wides[i].close();
                helds[i].close();
            }
        }
    }

    private static PackedPanel pack(
            MatmulShape shape, short[] halves, float[] bias, NativeArena arena, MatmulThread thread) {
        try (NativeBuffer plain =
                new NativeBuffer((long) halves.length * shape.heldFormat().bytes())) {
            ByteBuffer bytes = plain.asByteBuffer();
            for (short half : halves) {
                if (shape.heldFormat() == NumberFormat.BFLOAT16) {
                    bytes.putShort(half);
                } else {
                    bytes.putFloat(Bfloat16.widen(half));
                }
            }
            return new PackedPanel(shape, plain, bias, arena, thread.stream());
        }
    }

    private static int[] product(
            MatmulThread thread,
            ActivationBuffer source,
            int candidate,
            PackedPanel panel,
            ActivationBuffer target,
            float[] met) {
        int numRows = RowCounts.CANDIDATES[candidate];
        int stride = target.width();
        for (int r = 0; r < numRows; r++) {
            target.put(r, 0, met, r * stride, stride);
        }
        thread.writeTile(0, met, numRows * stride);
        thread.multiply(source, 0, candidate, panel, target, 0, 0);
        float[] results = new float[numRows * stride];
        for (int r = 0; r < numRows; r++) {
            target.get(r, 0, results, r * stride, stride);
        }
        return bits(results);
    }

    @Test
    void checkpointsAreHeldAsTheyAreStoredAndGiveTheSameBits() throws IOException {
        ModelDirectory halves = write("bf16", "BF16", "BF16");
        ModelDirectory floats = write("f32", "F32", "F32");
        ModelDirectory mixed = write("mixed", "BF16", "F32"); // k and up
        assertHeldAs(halves, NumberFormat.BFLOAT16, NumberFormat.BFLOAT16);
        assertHeldAs(floats, NumberFormat.FLOAT32, NumberFormat.FLOAT32);
        assertHeldAs(mixed, NumberFormat.FLOAT32, NumberFormat.BFLOAT16);
        int[] expected = logits(floats);
        assertArrayEquals(expected, logits(halves));
        assertArrayEquals(expected, logits(mixed));
    }

    private void assertHeldAs(ModelDirectory model, NumberFormat ofKeyAndUp, NumberFormat others) {
        ComputeThreads threads = ComputeThreads.acquire(2);
        DecoderWeights weights = SharedWeights.acquire(model, NumberFormat.FLOAT32, kernels, threads);
        try {
            assertEquals(ofKeyAndUp, weights.layer(0).queryKeyValue().heldFormat());
            assertEquals(ofKeyAndUp, weights.layer(0).up().heldFormat());
            assertEquals(ofKeyAndUp, weights.layer(0).gate().heldFormat(), "as up, whose panels it multiplies");
            assertEquals(others, weights.layer(0).down().heldFormat());
            assertEquals(others, weights.lmHead().heldFormat());
        } finally {
            SharedWeights.release(weights);
            ComputeThreads.release(threads);
        }
    }

    /** Of a prompt's tokens and of a few that follow one by one. */
    private static int[] logits(ModelDirectory model) {
        Random random = new Random(3);
        int numPromptTokens = 600; // more than a slice's chunks
        int[] tokens = random.ints(numPromptTokens + 4, 0, VOCAB).toArray();
        Seq sequence = new Seq(tokens);
        try (StepDriver driver = new StepDriver(model, Dtype.FLOAT32, 2)) {
            driver.step(new Part(sequence, numPromptTokens, numPromptTokens));
            for (int i = numPromptTokens; i < tokens.length; i++) {
                driver.step(new Part(sequence, 1, 1));
            }
        }
        assertEquals(tokens.length, sequence.logits.size());
        float[] all = new float[tokens.length * VOCAB];
        for (int i = 0; i < tokens.length; i++) {
            System.arraycopy(sequence.logits.get(i), 0, all, i * VOCAB, VOCAB);
        }
        assertTrue(Math.abs(all[7]) > 0);
        return bits(all);
    }

    /** The same numbers, whatever they are stored as. */
    private ModelDirectory write(String name, String storage, String ofKeyAndUp) throws IOException {
        Path path = Files.createDirectory(directory.resolve(name));
        Files.writeString(path.resolve("config.json"), """
                {"model_type": "llama", "vocab_size": 320, "hidden_size": 192, "intermediate_size": 336,
                 "num_hidden_layers": 1, "num_attention_heads": 3, "num_key_value_heads": 1,
                 "max_position_embeddings": 2048, "tie_word_embeddings": true}
                """);
        Random random = new Random(1);
        SafetensorsWriter weights = new SafetensorsWriter();
        String layer = "layers.0.";
        add(weights, random, storage, "embed_tokens", VOCAB, HIDDEN);
        add(weights, random, storage, layer + "input_layernorm", HIDDEN);
        add(weights, random, storage, layer + "self_attn.q_proj", HIDDEN, HIDDEN);
        add(weights, random, ofKeyAndUp, layer + "self_attn.k_proj", KV_WIDTH, HIDDEN);
        add(weights, random, storage, layer + "self_attn.v_proj", KV_WIDTH, HIDDEN);
        add(weights, random, storage, layer + "self_attn.o_proj", HIDDEN, HIDDEN);
        add(weights, random, storage, layer + "post_attention_layernorm", HIDDEN);
        add(weights, random, storage, layer + "mlp.gate_proj", INTERMEDIATE, HIDDEN);
        add(weights, random, ofKeyAndUp, layer + "mlp.up_proj", INTERMEDIATE, HIDDEN);
        add(weights, random, storage, layer + "mlp.down_proj", HIDDEN, INTERMEDIATE);
        add(weights, random, storage, "norm", HIDDEN);
        weights.write(path.resolve("model.safetensors"));
        return ModelDirectory.open(path);
    }

    private static void add(SafetensorsWriter weights, Random random, String storage, String module, long... shape) {
        int count = (int) Arrays.stream(shape).reduce(1, (a, b) -> a * b);
        ByteBuffer bytes = ByteBuffer.allocate(4 * count).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < count; i++) {
            short half = Bfloat16.round(shape.length == 1 ? 1 : (random.nextFloat() - 0.5f) * 0.2f);
            if (storage.equals("BF16")) {
                bytes.putShort(half);
            } else {
                bytes.putFloat(Bfloat16.widen(half));
            }
        }
        weights.add("model." + module + ".weight", storage, shape, Arrays.copyOf(bytes.array(), bytes.position()));
    }

    private static float[] gaussian(int count, Random random) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        Arrays.setAll(bits, i -> Float.floatToRawIntBits(values[i]));
        return bits;
    }
}
