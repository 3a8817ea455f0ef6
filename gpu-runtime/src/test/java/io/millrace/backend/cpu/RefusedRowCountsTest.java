package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelDirectory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Steps of several slices on a machine that refuses row counts: slices are then shorter than the longest, and their last
 * products are padded. KV and logits have the bits of every sequence alone, where nothing is refused and nothing is sliced.
 */
class RefusedRowCountsTest {
    private static final int NUM_SEQUENCES = 24;
    private static final int MAX_TOKENS = 200;
    private static final int[] ONLY_THE_ANCHOR = {};
    private static final int[][] ACCEPTED = {
        ONLY_THE_ANCHOR, {96}, {6, 20, 192}, {4, 8, 12, 16, 24, 28, 32, 40, 48, 56}, {128, 256}
    };

    private final ModelDirectory model = ModelDirectory.open(Path.of("../models/millrace-tiny"));
    private final Kernels kernels = KernelChoice.best().kernels();

    /** A sequence computed alone. */
    private record Alone(int[] tokens, int[] kv, List<float[]> logits) {}

    @ParameterizedTest
    @EnumSource(
            value = Dtype.class,
            names = {"FLOAT32", "BFLOAT16"})
    void slicesOfAnyLengthHaveTheBitsOfSequencesAlone(Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        Random random = new Random(5);
        List<Alone> sequences = new ArrayList<>();
        try (StepDriver driver = new StepDriver(model, dtype, 2)) {
            while (sequences.size() < NUM_SEQUENCES) {
                sequences.add(alone(
                        driver,
                        random.ints(1 + random.nextInt(MAX_TOKENS), 3, 1024).toArray()));
            }
        }
        for (int[] accepted : ACCEPTED) {
            assertSame(sequences, dtype, accepted);
        }
    }

    private Alone alone(StepDriver driver, int[] tokens) {
        Seq sequence = new Seq(tokens);
        driver.step(new Part(sequence, tokens.length, tokens.length));
        return new Alone(tokens, driver.kvBits(sequence, model.spec()), List.copyOf(sequence.logits));
    }

    /** All sequences in one step, by weights that others hold, too, and that refuse all but these counts and the anchor. */
    private void assertSame(List<Alone> sequences, Dtype dtype, int... counts) {
        boolean[] accepted = new boolean[RowCounts.CANDIDATES.length];
        accepted[RowCounts.candidateOf(RowCounts.ANCHOR)] = true;
        for (int count : counts) {
            accepted[RowCounts.candidateOf(count)] = true;
        }
        RowCounts few = new RowCounts(accepted);
        NumberFormat format = dtype == Dtype.BFLOAT16 ? NumberFormat.BFLOAT16 : NumberFormat.FLOAT32;
        ComputeThreads threads = ComputeThreads.acquire(2);
        DecoderWeights weights = SharedWeights.acquire(model, format, kernels, threads);
        try {
            weights.restrictRowCounts(few);
            try (StepDriver driver = new StepDriver(model, dtype, 2)) {
                assertEquals(1, SharedWeights.size(), "the step is computed by the weights that were restricted");
                Part[] parts = sequences.stream()
                        .map(each -> new Part(new Seq(each.tokens()), each.tokens().length, each.tokens().length))
                        .toArray(Part[]::new);
                driver.step(parts);
                int numRows = 0;
                for (int i = 0; i < parts.length; i++) {
                    compare(driver, sequences.get(i), parts[i].sequence(), "all but " + few.refused() + ", " + i);
                    numRows += parts[i].numTokens();
                }
                assertTrue(numRows > 3 * DecoderStep.MAX_SLICE_ROWS, "only " + numRows + " rows");
            }
        } finally {
            SharedWeights.release(weights);
            ComputeThreads.release(threads);
        }
    }

    private void compare(StepDriver driver, Alone expected, Seq actual, String what) {
        assertArrayEquals(expected.kv(), driver.kvBits(actual, model.spec()), what + ", KV");
        assertEquals(expected.logits().size(), actual.logits.size(), what);
        for (int i = 0; i < expected.logits().size(); i++) {
            assertArrayEquals(expected.logits().get(i), actual.logits.get(i), what + ", logits at position " + i);
        }
    }
}
