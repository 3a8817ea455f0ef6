package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvCacheDtype;
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
import org.junit.jupiter.params.provider.EnumSource;

/** KV in 8 bits in memory: nearly twice the blocks, small errors, and bits that depend on the sequence alone. */
class Int8KvTest {
    private static final ModelDirectory MODEL = ModelDirectory.open(Path.of("../models/millrace-tiny"));
    private static final int NUM_TOKENS = 150;

    private static StepDriver driver(Dtype dtype, KvCacheDtype kv, int numThreads, Kernels kernels) {
        return new StepDriver(
                MODEL, dtype, kv, numThreads, kernels, MODEL.spec().rope());
    }

    private static int[] prompt(int seed) {
        return new Random(seed).ints(NUM_TOKENS, 10, 1000).toArray();
    }

    private static List<float[]> alone(Dtype dtype, KvCacheDtype kv, int numThreads, Kernels kernels) {
        try (StepDriver driver = driver(dtype, kv, numThreads, kernels)) {
            Seq sequence = new Seq(prompt(1));
            driver.step(new Part(sequence, NUM_TOKENS, NUM_TOKENS));
            return sequence.logits;
        }
    }

    private static void assertSame(List<float[]> expected, List<float[]> actual, String what) {
        assertEquals(expected.size(), actual.size(), what);
        for (int i = 0; i < expected.size(); i++) {
            assertArrayEquals(expected.get(i), actual.get(i), what + ", position " + i);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT32", "BFLOAT16"})
    void bitsDependOnTheSequenceAlone(Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        Kernels vector = KernelChoice.best().kernels();
        List<float[]> expected = alone(dtype, KvCacheDtype.INT8, 2, vector);
        assertSame(expected, alone(dtype, KvCacheDtype.INT8, 1, vector), "one thread");
        assertSame(expected, alone(dtype, KvCacheDtype.INT8, 2, new ScalarKernels()), "scalar kernels");
        Random random = new Random(2);
        try (StepDriver driver = driver(dtype, KvCacheDtype.INT8, 2, vector)) {
            Seq trunk = new Seq(prompt(1));
            driver.step(new Part(trunk, 128, 128));
            Seq child = driver.fork(trunk, 128, Arrays.copyOfRange(prompt(1), 128, NUM_TOKENS));
            child.logits.addAll(trunk.logits);
            Seq other = new Seq(prompt(3));
            while (child.numComputed < NUM_TOKENS) {
                int count = Math.min(NUM_TOKENS - child.numComputed, 1 + random.nextInt(4));
                int beside = Math.min(NUM_TOKENS - other.numComputed, 1 + random.nextInt(9));
                int follows = Math.min(NUM_TOKENS - trunk.numComputed, 1);
                List<Part> parts = new ArrayList<>(List.of(new Part(child, count, count)));
                if (beside > 0) {
                    parts.add(new Part(other, beside, 1));
                }
                if (follows > 0) {
                    parts.add(new Part(trunk, follows, follows));
                }
                driver.step(parts.toArray(Part[]::new));
            }
            assertSame(expected, child.logits, "in chunks, behind a shared prefix");
            assertSame(expected.subList(0, trunk.logits.size()), trunk.logits, "token by token");
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"FLOAT32", "BFLOAT16"})
    void errorsAreSmallAndBlocksAreMore(Dtype dtype) {
        assumeTrue(dtype == Dtype.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        Kernels kernels = KernelChoice.best().kernels();
        List<float[]> expected = alone(dtype, KvCacheDtype.AUTO, 2, kernels);
        List<float[]> rounded = alone(dtype, KvCacheDtype.INT8, 2, kernels);
        double squares = 0;
        double differences = 0;
        for (int i = 0; i < expected.size(); i++) {
            for (int id = 0; id < expected.get(i).length; id++) {
                squares += Math.pow(expected.get(i)[id], 2);
                differences += Math.pow(expected.get(i)[id] - rounded.get(i)[id], 2);
            }
        }
        double error = Math.sqrt(differences / squares);
        assertTrue(error > 0 && error < 0.03, "relative error " + error);
        try (StepDriver auto = driver(dtype, KvCacheDtype.AUTO, 1, kernels);
                StepDriver int8 = driver(dtype, KvCacheDtype.INT8, 1, kernels)) {
            // 32 dimensions a head: 32 + 4 bytes instead of 64 or 128.
            double ratio = (dtype == Dtype.FLOAT32 ? 128 : 64) / 36.0;
            assertEquals(
                    ratio, (double) int8.backend().numBlocks() / auto.backend().numBlocks(), 0.01);
            assertTrue(int8.backend().numericFingerprint().contains("/kv-int8/"));
            assertEquals(
                    auto.backend().numericFingerprint(),
                    int8.backend().numericFingerprint().replace("/kv-int8", ""));
        }
    }
}
