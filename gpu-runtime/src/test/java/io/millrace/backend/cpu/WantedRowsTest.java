package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.backend.BatchInput;
import io.millrace.backend.Dtype;
import io.millrace.backend.LogitsRow;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.model.ModelDirectory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The last layer goes on only with tokens whose logits are wanted; what these are, and all KV, does not show in the bits. */
class WantedRowsTest {
    private static final Path GOLDEN = Path.of("src/test/resources/golden/models/llama");
    private static final Path TINY = Path.of("../models/millrace-tiny");

    @ParameterizedTest
    @CsvSource({"golden,FLOAT32", "golden,BFLOAT16", "tiny,FLOAT32", "tiny,BFLOAT16"})
    void bitsDoNotDependOnWhichLogitsAreWanted(String name, Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        ModelDirectory model = ModelDirectory.open(name.equals("golden") ? GOLDEN : TINY);
        for (int seed = 0; seed < 4; seed++) {
            Random random = new Random(seed);
            int[] trunk = random.ints(300, 0, model.spec().vocabSize()).toArray();
            try (StepDriver all = new StepDriver(model, dtype, 2);
                    StepDriver some = new StepDriver(model, dtype, 1 + seed % 3)) {
                List<Seq> expected = new ArrayList<>(List.of(new Seq(trunk)));
                List<Seq> actual = new ArrayList<>(List.of(new Seq(trunk)));
                all.step(new Part(expected.get(0), trunk.length, trunk.length));
                some.step(new Part(actual.get(0), 270, 0));
                some.step(new Part(actual.get(0), 30, 1));
                assertEquals(1, actual.get(0).logits.size());
                assertSameBits(
                        expected.get(0).logits.get(299), actual.get(0).logits.get(0), "the trunk");
                for (int i = 0; i < 7; i++) {
                    int[] more = random.ints(
                                    1 + random.nextInt(90), 0, model.spec().vocabSize())
                            .toArray();
                    int shared = random.nextInt(trunk.length / 16 + 1) * 16;
                    Seq sequence = all.fork(expected.get(0), shared, more);
                    all.step(new Part(sequence, more.length, more.length));
                    expected.add(sequence);
                    actual.add(some.fork(actual.get(0), shared, more));
                }
                runAndCompare(some, actual, expected, random, name + " " + dtype + " seed " + seed);
                for (int i = 0; i < actual.size(); i++) {
                    assertArrayEquals(
                            all.kvBits(expected.get(i), model.spec()),
                            some.kvBits(actual.get(i), model.spec()),
                            "KV of sequence " + i + ", seed " + seed);
                }
            }
        }
    }

    /** In random chunks of random sequences, of which the last few tokens' logits are wanted, or none. */
    private static void runAndCompare(
            StepDriver driver, List<Seq> sequences, List<Seq> expected, Random random, String what) {
        while (true) {
            List<Part> parts = new ArrayList<>();
            List<Integer> indices = new ArrayList<>();
            for (int i = 1; i < sequences.size(); i++) {
                Seq sequence = sequences.get(i);
                int left = sequence.tokens.length - sequence.numComputed;
                if (left > 0 && random.nextInt(3) > 0) {
                    int count = Math.min(left, random.nextBoolean() ? 1 : 1 + random.nextInt(70));
                    Part part = new Part(sequence, count, random.nextBoolean() ? 0 : 1 + random.nextInt(count));
                    parts.add(part);
                    indices.add(i);
                    sequence.logits.clear();
                }
            }
            if (parts.isEmpty()) {
                if (sequences.stream().allMatch(s -> s.numComputed == s.tokens.length)) {
                    return;
                }
                continue;
            }
            driver.step(parts.toArray(new Part[0]));
            for (int p = 0; p < parts.size(); p++) {
                Seq sequence = parts.get(p).sequence();
                Seq full = expected.get(indices.get(p));
                int behind = full.tokens.length - sequence.numComputed; // tokens after this chunk
                for (int k = 1; k <= parts.get(p).numLogits(); k++) {
                    assertSameBits(
                            full.logits.get(full.logits.size() - behind - k),
                            sequence.logits.get(sequence.logits.size() - k),
                            what + ", sequence " + indices.get(p) + ", " + (behind + k) + " from end");
                }
            }
        }
    }

    private static void assertSameBits(float[] expected, float[] actual, String what) {
        int[] a = new int[expected.length];
        int[] b = new int[actual.length];
        for (int i = 0; i < a.length; i++) {
            a[i] = Float.floatToRawIntBits(expected[i]);
            b[i] = Float.floatToRawIntBits(actual[i]);
        }
        assertArrayEquals(a, b, what);
    }

    @Test
    void kvReadsOfTheLastLayerAreThoseOfWantedRows() {
        ModelDirectory model = ModelDirectory.open(TINY);
        int numLayers = model.spec().numLayers();
        int[] tokens = new Random(1).ints(100, 0, model.spec().vocabSize()).toArray();
        long all = bytesRead(model, new Seq(tokens), 100);
        long one = bytesRead(model, new Seq(tokens), 1);
        long none = bytesRead(model, new Seq(tokens), 0);
        try (StepDriver driver = new StepDriver(model, Dtype.FLOAT32, 1)) {
            long bytesPerLayerBlock = driver.backend().bytesPerBlock() / numLayers;
            assertTrue(all > 0 && all % numLayers == 0);
            assertEquals(all / numLayers * (numLayers - 1), none);
            assertEquals(7 * bytesPerLayerBlock, one - none, "100 tokens lie in 7 blocks");
        }
    }

    private static long bytesRead(ModelDirectory model, Seq sequence, int numLogits) {
        try (StepDriver driver = new StepDriver(model, Dtype.FLOAT32, 1)) {
            driver.step(new Part(sequence, sequence.tokens.length, numLogits));
            return driver.backend().numKvBytesRead();
        }
    }

    @Test
    void severalDrawsOfOneTokenAreOneRow() {
        ModelDirectory model = ModelDirectory.open(TINY);
        try (StepDriver driver = new StepDriver(model, Dtype.FLOAT32, 1)) {
            BatchInput input = driver.build(new Part(new Seq(5, 6, 7), 3, 2), new Part(new Seq(8, 9), 2, 0));
            List<LogitsRow> twice = new ArrayList<>(input.logitsRows());
            twice.add(twice.get(1));
            TokenRows rows = new TokenRows();
            rows.setWanted(with(input, twice));
            assertEquals(2, rows.numRows());
            assertEquals(1, rows.token(0));
            assertEquals(2, rows.token(1));
            assertEquals(2, rows.numRows(0));
            assertEquals(0, rows.numRows(1));
            Collections.reverse(twice);
            IllegalArgumentException refused =
                    assertThrows(IllegalArgumentException.class, () -> rows.setWanted(with(input, twice)));
            assertTrue(refused.getMessage().contains("is of token 1"), refused.getMessage());
        }
    }

    private static BatchInput with(BatchInput input, List<LogitsRow> rows) {
        return new BatchInput(
                input.numTokens(),
                input.tokenIds(),
                input.positions(),
                input.slotMapping(),
                input.numSequences(),
                input.queryStarts(),
                input.contextLengths(),
                input.blockTables(),
                rows,
                0,
                new int[0],
                new int[0]);
    }
}
