package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.StepDriver.Part;
import io.millrace.backend.cpu.StepDriver.Seq;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import io.millrace.kernels.ScalarKernels;
import io.millrace.model.ModelDirectory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A token's logits and KV, to the bit, whatever the batch: computed alone in one step, token by token among random
 * companions, in random chunks, behind a prefix shared by several sequences of a batch, on one thread and on two, by the
 * vector kernels and by their scalar twins.
 */
class BitEqualityTest {
    private static final Path GOLDEN = Path.of("src/test/resources/golden/models/llama");
    private static final Path TINY = Path.of("../models/millrace-tiny");
    private static final Kernels VECTOR = KernelChoice.best().kernels();

    private record Result(float[][] logits, int[] kv) {}

    @ParameterizedTest
    @CsvSource({"golden,FLOAT32", "golden,BFLOAT16", "tiny,FLOAT32", "tiny,BFLOAT16"})
    void bitsDependOnTheSequenceAlone(String name, Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        ModelDirectory model = ModelDirectory.open(name.equals("golden") ? GOLDEN : TINY);
        for (int seed = 0; seed < 3; seed++) {
            List<int[]> prompts = family(model, new Random(seed));
            List<Result> alone = alone(model, dtype, 2, VECTOR, prompts);
            String what = name + " " + dtype + " seed " + seed;
            assertSame(alone, alone(model, dtype, 1, VECTOR, prompts), what + ", one thread");
            assertSame(alone, alone(model, dtype, 2, new ScalarKernels(), prompts), what + ", scalar kernels");
            for (int threads = 1; threads <= 3; threads++) {
                assertSame(alone, mixed(model, dtype, threads, prompts, new Random(seed)), what + ", mixed batches");
                assertSame(alone, forked(model, dtype, threads, prompts, new Random(seed)), what + ", shared prefixes");
            }
        }
    }

    /** As a scheduler fills steps: sequence after sequence, until the budget is spent. */
    @ParameterizedTest
    @CsvSource({"golden,FLOAT32", "golden,BFLOAT16", "tiny,FLOAT32", "tiny,BFLOAT16"})
    void bitsDoNotDependOnTheTokenBudget(String name, Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        ModelDirectory model = ModelDirectory.open(name.equals("golden") ? GOLDEN : TINY);
        List<int[]> prompts = new ArrayList<>(family(model, new Random(5)));
        prompts.addAll(family(model, new Random(6)));
        List<Result> alone = alone(model, dtype, 2, VECTOR, prompts);
        for (int budget : new int[] {16, 17, 64, 256, 1024, 4096}) {
            assertSame(alone, budgeted(model, dtype, 2, prompts, budget), name + " " + dtype + ", budget " + budget);
        }
        // Steps of several slices, whose borders fall between two tokens that share ints of the cache.
        for (int threads = 1; threads <= 3; threads++) {
            for (int budget : new int[] {515, 1031, 4096}) {
                String what = name + " " + dtype + ", budget " + budget + ", " + threads + " threads";
                assertSame(alone, budgeted(model, dtype, threads, prompts, budget), what);
            }
        }
    }

    /** Enough shared pieces that short tails are folded right behind them, one token and several to a step. */
    @ParameterizedTest
    @CsvSource({"golden,FLOAT32", "golden,BFLOAT16", "tiny,FLOAT32", "tiny,BFLOAT16"})
    void bitsDoNotDependOnWhoFoldsTheTail(String name, Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        ModelDirectory model = ModelDirectory.open(name.equals("golden") ? GOLDEN : TINY);
        Random random = new Random(9);
        int vocab = model.spec().vocabSize();
        for (int threads = 1; threads <= 2; threads++) {
            List<int[]> prompts = new ArrayList<>();
            List<Seq> sequences = new ArrayList<>();
            try (StepDriver driver = new StepDriver(model, dtype, threads)) {
                for (int family = 0; family < 9; family++) {
                    int shared = 64 * (1 + family % 3) + 16 * (family % 2);
                    int[] trunk = random.ints(shared, 0, vocab).toArray();
                    Seq first = new Seq(trunk);
                    driver.step(new Part(first, shared, shared));
                    for (int member = 0; member < 1 + family; member++) {
                        int[] own =
                                random.ints(1 + random.nextInt(80), 0, vocab).toArray();
                        int[] prompt = Arrays.copyOf(trunk, shared + own.length);
                        System.arraycopy(own, 0, prompt, shared, own.length);
                        prompts.add(prompt);
                        sequences.add(driver.fork(first, shared, own));
                    }
                }
                runMixed(driver, sequences, random);
                String what = name + " " + dtype + ", threads " + threads;
                assertSame(
                        alone(model, dtype, threads, VECTOR, prompts),
                        results(driver, model, sequences, prompts),
                        what);
            }
        }
    }

    private static List<Result> budgeted(
            ModelDirectory model, Dtype dtype, int threads, List<int[]> prompts, int budget) {
        try (StepDriver driver = new StepDriver(model, dtype, threads)) {
            List<Seq> sequences = prompts.stream().map(Seq::new).toList();
            List<Part> parts = new ArrayList<>();
            do {
                parts.clear();
                int left = budget;
                for (Seq sequence : sequences) {
                    int count = Math.min(left, sequence.tokens.length - sequence.numComputed);
                    if (count > 0) {
                        parts.add(new Part(sequence, count, count));
                        left -= count;
                    }
                }
                if (!parts.isEmpty()) {
                    driver.step(parts.toArray(new Part[0]));
                }
            } while (!parts.isEmpty());
            return results(driver, model, sequences, prompts);
        }
    }

    /** Prompts that begin alike for a random number of tokens: the first is the trunk. */
    private static List<int[]> family(ModelDirectory model, Random random) {
        int vocab = model.spec().vocabSize();
        int[] trunk = random.ints(150 + random.nextInt(120), 0, vocab).toArray();
        List<int[]> prompts = new ArrayList<>();
        prompts.add(trunk);
        for (int i = 0; i < 7; i++) {
            int shared = random.nextInt(trunk.length);
            int[] prompt =
                    random.ints(shared + 1 + random.nextInt(40), 0, vocab).toArray();
            System.arraycopy(trunk, 0, prompt, 0, shared);
            prompts.add(prompt);
        }
        prompts.add(Arrays.copyOf(trunk, 1));
        return prompts;
    }

    private static List<Result> alone(
            ModelDirectory model, Dtype dtype, int threads, Kernels kernels, List<int[]> prompts) {
        try (StepDriver driver =
                new StepDriver(model, dtype, threads, kernels, model.spec().rope())) {
            List<Result> results = new ArrayList<>();
            for (int[] prompt : prompts) {
                Seq sequence = new Seq(prompt);
                driver.step(new Part(sequence, prompt.length, prompt.length));
                results.add(result(driver, model, sequence, prompt.length));
            }
            return results;
        }
    }

    /** All sequences at once, each step some of them, by random numbers of tokens: often one. */
    private static List<Result> mixed(
            ModelDirectory model, Dtype dtype, int threads, List<int[]> prompts, Random random) {
        try (StepDriver driver = new StepDriver(model, dtype, threads)) {
            List<Seq> sequences = new ArrayList<>();
            for (int[] prompt : prompts) {
                sequences.add(new Seq(prompt));
            }
            runMixed(driver, sequences, random);
            return results(driver, model, sequences, prompts);
        }
    }

    /** The trunk first; then all others behind the whole blocks that they share with it, together. */
    private static List<Result> forked(
            ModelDirectory model, Dtype dtype, int threads, List<int[]> prompts, Random random) {
        try (StepDriver driver = new StepDriver(model, dtype, threads)) {
            int[] trunk = prompts.get(0);
            Seq first = new Seq(trunk);
            driver.step(new Part(first, trunk.length, trunk.length));
            List<Seq> sequences = new ArrayList<>(List.of(first));
            for (int[] prompt : prompts.subList(1, prompts.size())) {
                int shared = 0;
                while (shared < Math.min(prompt.length - 1, trunk.length) && prompt[shared] == trunk[shared]) {
                    shared++;
                }
                shared = shared / 16 * 16;
                sequences.add(driver.fork(first, shared, Arrays.copyOfRange(prompt, shared, prompt.length)));
            }
            long before = driver.backend().numKvBytesRead();
            runMixed(driver, sequences, random);
            assertTrue(driver.backend().numKvBytesRead() > before);
            return results(driver, model, sequences, prompts);
        }
    }

    private static void runMixed(StepDriver driver, List<Seq> sequences, Random random) {
        while (true) {
            List<Part> parts = new ArrayList<>();
            int budget = 1 + random.nextInt(200);
            for (Seq sequence : sequences) {
                int left = sequence.tokens.length - sequence.numComputed;
                if (left > 0 && budget > 0 && random.nextInt(4) > 0) {
                    int count = Math.min(budget, Math.min(left, random.nextBoolean() ? 1 : 1 + random.nextInt(70)));
                    parts.add(new Part(sequence, count, count));
                    budget -= count;
                }
            }
            if (!parts.isEmpty()) {
                driver.step(parts.toArray(new Part[0]));
            } else if (sequences.stream().allMatch(s -> s.numComputed == s.tokens.length)) {
                return;
            }
        }
    }

    private static List<Result> results(
            StepDriver driver, ModelDirectory model, List<Seq> sequences, List<int[]> prompts) {
        List<Result> results = new ArrayList<>();
        for (int i = 0; i < sequences.size(); i++) {
            results.add(result(driver, model, sequences.get(i), prompts.get(i).length));
        }
        return results;
    }

    private static Result result(StepDriver driver, ModelDirectory model, Seq sequence, int length) {
        assertTrue(sequence.numComputed == length);
        return new Result(sequence.logits.toArray(new float[0][]), driver.kvBits(sequence, model.spec()));
    }

    /** Logits are compared from the end: a forked sequence has none for the tokens it shares. */
    private static void assertSame(List<Result> expected, List<Result> actual, String what) {
        for (int i = 0; i < expected.size(); i++) {
            float[][] a = expected.get(i).logits();
            float[][] b = actual.get(i).logits();
            assertTrue(b.length > 0, what);
            for (int k = 1; k <= b.length; k++) {
                assertArrayEquals(
                        bits(a[a.length - k]),
                        bits(b[b.length - k]),
                        what + ", sequence " + i + ", " + k + " from end");
            }
            assertArrayEquals(expected.get(i).kv(), actual.get(i).kv(), what + ", KV of sequence " + i);
        }
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToRawIntBits(values[i]);
        }
        return bits;
    }
}
