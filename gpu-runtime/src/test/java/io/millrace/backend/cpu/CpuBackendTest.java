package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.Backend;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BackendProvider;
import io.millrace.backend.BatchInput;
import io.millrace.backend.Dtype;
import io.millrace.backend.LogitsRow;
import io.millrace.backend.SequenceFaultException;
import io.millrace.backend.StepOutput;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.engine.InvalidConfigException;
import io.millrace.model.ModelDirectory;
import io.millrace.sampling.LogprobsMode;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.ServiceLoader;
import org.junit.jupiter.api.Test;

class CpuBackendTest {
    private static final ModelDirectory MODEL = ModelDirectory.open(Path.of("src/test/resources/golden/models/llama"));
    private static final int VOCAB = 320;

    @Test
    void isFoundByItsNameAndSharesWeightsWithinTheProcess() {
        BackendProvider provider = ServiceLoader.load(BackendProvider.class).stream()
                .map(ServiceLoader.Provider::get)
                .filter(p -> p.name().equals("cpu"))
                .findFirst()
                .orElseThrow();
        int before = SharedWeights.size();
        Backend first = provider.open(StepDriver.config(MODEL, Dtype.FLOAT32, 2, 1 << 20));
        Backend second = provider.open(StepDriver.config(MODEL, Dtype.FLOAT32, 2, 1 << 21));
        assertEquals(before + 1, SharedWeights.size());
        // 3 layers × (K and V) × 2 KV heads × 16 dimensions × 16 tokens × 4 bytes
        assertEquals(12288, first.bytesPerBlock());
        assertEquals((1 << 20) / 12288, first.numBlocks());
        assertTrue(
                first.numericFingerprint().matches("cpu/[a-z0-9_]+/onednn-3\\.8\\.1/float32/kernels-v6"),
                first.numericFingerprint());
        first.close();
        first.close();
        assertEquals(before + 1, SharedWeights.size());
        second.close();
        assertEquals(before, SharedWeights.size());
    }

    @Test
    void refusesKvMemoryThatDoesNotFit() {
        InvalidConfigException tooMuch = assertThrows(
                InvalidConfigException.class,
                () -> new CpuBackendProvider().open(StepDriver.config(MODEL, Dtype.FLOAT32, 2, 20L << 30)));
        assertTrue(tooMuch.getMessage().contains("--kv-cache-memory-bytes = " + (20L << 30)), tooMuch.getMessage());
        assertTrue(tooMuch.getMessage().contains("-Xmx"), tooMuch.getMessage());
        InvalidConfigException tooLittle = assertThrows(
                InvalidConfigException.class,
                () -> new CpuBackendProvider().open(StepDriver.config(MODEL, Dtype.FLOAT32, 2, 1000)));
        assertTrue(tooLittle.getMessage().contains("12288 bytes"), tooLittle.getMessage());
    }

    @Test
    void refusesTokenBudgetsThatNoBufferHolds() {
        BackendConfig config = new BackendConfig(
                MODEL, Dtype.FLOAT32, 16, 1 << 20, 8_388_352, 256, 2048, 2, LogprobsMode.RAW_LOGPROBS);
        InvalidConfigException refusal =
                assertThrows(InvalidConfigException.class, () -> new CpuBackendProvider().open(config));
        assertTrue(refusal.getMessage().contains("--max-num-batched-tokens = 8388352"), refusal.getMessage());
        // 2 GiB of rows of 64 × 4 bytes, less the 256 that row counts are rounded up to at most
        assertTrue(refusal.getMessage().contains("at most 8388351 tokens"), refusal.getMessage());
    }

    @Test
    void refusesBfloat16WhereTheCpuLacksIt() {
        InvalidConfigException refusal = assertThrows(
                InvalidConfigException.class,
                () -> CpuBackendProvider.chooseFormat(StepDriver.config(MODEL, Dtype.BFLOAT16, 2, 1), false));
        assertTrue(refusal.getMessage().contains("--dtype float32"), refusal.getMessage());
        assertEquals(
                NumberFormat.FLOAT32,
                CpuBackendProvider.chooseFormat(StepDriver.config(MODEL, Dtype.AUTO, 2, 1), false));
        assertEquals(
                NumberFormat.BFLOAT16,
                CpuBackendProvider.chooseFormat(StepDriver.config(MODEL, Dtype.AUTO, 2, 1), true));
    }

    @Test
    void aFaultNamesItsSequenceAndTheOthersCanGoOn() {
        try (StepDriver driver = new StepDriver(MODEL, Dtype.FLOAT32, 2)) {
            Seq good = new Seq(1, 2, 3);
            Seq bad = new Seq(4, 320, 5);
            SequenceFaultException outside = assertThrows(
                    SequenceFaultException.class, () -> driver.step(new Part(good, 3, 1), new Part(bad, 3, 1)));
            assertEquals(1, outside.sequence());
            assertTrue(outside.getMessage().contains("token id 320"), outside.getMessage());

            Seq poisoned = new Seq(7, 8, 9);
            driver.step(new Part(poisoned, 2, 1));
            int at = driver.backend().pool().valueOffset(poisoned.table[0], 0);
            driver.backend().pool().floats(1)[at] = Float.NaN;
            SequenceFaultException notFinite = assertThrows(
                    SequenceFaultException.class, () -> driver.step(new Part(good, 3, 1), new Part(poisoned, 1, 1)));
            assertEquals(1, notFinite.sequence());
            assertTrue(notFinite.getMessage().contains("not finite"), notFinite.getMessage());

            driver.step(new Part(good, 3, 1));
            Seq fresh = new Seq(1, 2, 3);
            driver.step(new Part(fresh, 3, 1));
            assertArrayEquals(fresh.logits.get(0), good.logits.get(0));
        }
    }

    @Test
    void copiesBlocksBeforeTheStep() {
        try (StepDriver driver = new StepDriver(MODEL, Dtype.FLOAT32, 2)) {
            int[] tokens = new Random(1).ints(21, 0, VOCAB).toArray();
            Seq original = new Seq(tokens);
            driver.step(new Part(original, 20, 1));
            Seq copy = new Seq(tokens);
            copy.numComputed = 20;
            copy.table = new int[] {original.table[0], 5000};
            BatchInput plain = driver.build(new Part(copy, 1, 1));
            BatchInput withCopy = new BatchInput(
                    1,
                    plain.tokenIds(),
                    plain.positions(),
                    plain.slotMapping(),
                    1,
                    plain.queryStarts(),
                    plain.contextLengths(),
                    plain.blockTables(),
                    plain.logitsRows(),
                    1,
                    new int[] {original.table[1]},
                    new int[] {5000});
            StepOutput output = driver.backend().submit(withCopy).await();
            copy.numComputed = 21;
            int[] drawn = driver.step(new Part(original, 1, 1));
            assertEquals(drawn[0], output.tokenIds()[0]);
            assertArrayEquals(driver.kvBits(original, MODEL.spec()), driver.kvBits(copy, MODEL.spec()));
        }
    }

    @Test
    void readsSharedBlocksOnceForAllSequences() {
        try (StepDriver driver = new StepDriver(MODEL, Dtype.FLOAT32, 2)) {
            int[] tokens = new Random(2).ints(130, 0, VOCAB).toArray();
            Seq trunk = new Seq(tokens);
            driver.step(new Part(trunk, 130, 1));
            List<Part> parts = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                parts.add(new Part(driver.fork(trunk, 128, i), 1, 1));
            }
            long before = driver.backend().numKvBytesRead();
            driver.step(parts.toArray(new Part[0]));
            long numBlocks = (driver.backend().numKvBytesRead() - before)
                    / driver.backend().bytesPerBlock();
            // Two tiles of four blocks for all eight, then one block each.
            assertEquals(8 + 8, numBlocks);
        }
    }

    @Test
    void scoresALongPromptInSlices() {
        try (StepDriver driver = new StepDriver(MODEL, Dtype.FLOAT32, 2)) {
            int[] tokens = new Random(3).ints(700, 0, VOCAB).toArray();
            Seq whole = new Seq(tokens);
            BatchInput plain = driver.build(new Part(whole, 700, 0));
            List<LogitsRow> rows = new ArrayList<>();
            for (int t = 0; t < 699; t++) {
                rows.add(LogitsRow.score(t, tokens[t + 1], 2));
            }
            BatchInput scoring = new BatchInput(
                    700,
                    plain.tokenIds(),
                    plain.positions(),
                    plain.slotMapping(),
                    1,
                    plain.queryStarts(),
                    plain.contextLengths(),
                    plain.blockTables(),
                    rows,
                    0,
                    new int[0],
                    new int[0]);
            StepOutput output = driver.backend().submit(scoring).await();
            double[][] expected = new ReferenceDecoder(MODEL, MODEL.spec().rope()).logits(Arrays.copyOf(tokens, 700));
            for (int t = 0; t < 699; t++) {
                assertEquals(tokens[t + 1], output.tokenIds()[t]);
                assertNotNull(output.logprobs()[t]);
                double total = Arrays.stream(expected[t]).map(Math::exp).sum();
                double logprob = expected[t][tokens[t + 1]] - Math.log(total);
                assertEquals(logprob, output.logprobs()[t].logprob(), 1e-3, "position " + t);
            }
        }
    }
}
