package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Our own products of single rows against the library's, bit by bit, for every end and shapes that fill no block. */
class SingleRowProductsTest {
    private static final int[][] SHAPES = { // depth, width
        {576, 240},
        {576, 144},
        {1536, 144},
        {576, 768},
        {64, 64},
        {64, 16},
        {128, 80},
        {320, 48},
        {1040, 96},
        {2048, 112},
    };

    /** What has no whole pairs of depths, or columns that fill no vector. */
    private static final int[][] SHAPES_OF_FLOAT32 = {
        {577, 240},
        {333, 80},
        {1537, 160},
        {100, 33},
        {17, 7},
        {4096, 96},
    };

    private final Kernels kernels = KernelChoice.best().kernels();

    @BeforeEach
    void callsAsComputeThreadsDo() {
        OneDnn.useOneThreadPerCall();
    }

    @Test
    void bitsAreTheLibrarysInBfloat16() {
        assumeTrue(OneDnn.instructionSet().equals("avx512_bf16"), "another arithmetic");
        assertBitsAreTheLibrarys(NumberFormat.BFLOAT16, SHAPES);
    }

    @Test
    void bitsAreTheLibrarysInFloat32() {
        assumeTrue(MatmulShape.canWiden(), "panels are float32 here");
        assertBitsAreTheLibrarys(NumberFormat.FLOAT32, SHAPES);
        assertBitsAreTheLibrarys(NumberFormat.FLOAT32, SHAPES_OF_FLOAT32);
    }

    private void assertBitsAreTheLibrarys(NumberFormat format, int[][] shapes) {
        Random random = new Random(1);
        for (int[] sizes : shapes) {
            for (ProductEnd end : ProductEnd.values()) {
                for (boolean hasBias : new boolean[] {false, true}) {
                    try (Case one = new Case(format, sizes[0], sizes[1], end, hasBias, random)) {
                        assertTrue(one.shape.sumDepth() > 0, one.shape.toString());
                        one.compare(random);
                        one.compare(random);
                    }
                }
            }
        }
    }

    @Test
    void sumsOfWhatTheLibraryFlushesAreLeftToIt() {
        assumeTrue(OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        Random random = new Random(2);
        try (Case one = new Case(NumberFormat.BFLOAT16, 64, 64, ProductEnd.STORE, false, random)) {
            assumeTrue(one.shape.sumDepth() > 0, "another arithmetic");
            one.fill(0, random, 1e-37f);
            assertFalse(one.products.multiply(one.source, 0, one.panel, one.ours, 0, 0));
            one.fill(0, random, 0f);
            one.products.begin();
            assertTrue(one.products.multiply(one.source, 0, one.panel, one.ours, 0, 0));
        }
    }

    @Test
    void smallSumsInFloat32AreTheLibrarys() {
        assumeTrue(MatmulShape.canWiden(), "panels are float32 here");
        Random random = new Random(5);
        try (Case one = new Case(NumberFormat.FLOAT32, 576, 144, ProductEnd.ADD, true, random)) {
            one.scale = 0x1p-120f;
            one.compare(random);
            one.scale = 0x1p-140f;
            one.compare(random);
        }
    }

    @Test
    void fewTasksAreTakenUntilTheKernelIsCompiledAndThenAll() {
        try (Case one = new Case(anyFormat(), 64, 64, ProductEnd.STORE, false, new Random(3));
                SingleRowProducts products = one.coldProducts()) {
            assumeTrue(one.shape.sumDepth() > 0, "another arithmetic");
            beginSteps(products, SingleRowProducts.MIN_LEAD, 1);
            assertEquals(625, numTaken(products, one.panel, SingleRowProducts.NUM_WARM_UP_TASKS));
            assertTrue(products.takes(1, one.panel));
            assertFalse(products.takes(2, one.panel));
            beginSteps(products, SingleRowProducts.MIN_LEAD, 64);
            assertTrue(products.takes(1, one.panel), "warm, whatever the steps");
            one.shape.acceptSumDepth(0);
            assertFalse(products.takes(1, one.panel));
        }
    }

    @Test
    void warmUpWaitsUntilStepsOfARowAreMoreThanOthers() {
        try (Case one = new Case(anyFormat(), 64, 64, ProductEnd.STORE, false, new Random(4));
                SingleRowProducts products = one.coldProducts()) {
            assumeTrue(one.shape.sumDepth() > 0, "another arithmetic");
            for (int batch = 0; batch < 100; batch++) {
                beginSteps(products, 15, 64);
                assertEquals(0, numTaken(products, one.panel, 500), "the last layer of a prompt alone");
                beginSteps(products, SingleRowProducts.MIN_LEAD - 1, 1);
                assertEquals(0, numTaken(products, one.panel, 500), "the last steps of batch " + batch);
            }
            beginSteps(products, 1, 1);
            assertEquals(10, numTaken(products, one.panel, 320));
            beginSteps(products, 1, 5);
            assertEquals(0, numTaken(products, one.panel, 320));
            beginSteps(products, 1, 1);
            assertEquals(10, numTaken(products, one.panel, 320));
        }
    }

    private static NumberFormat anyFormat() {
        return OneDnn.hasBfloat16() ? NumberFormat.BFLOAT16 : NumberFormat.FLOAT32;
    }

    private static void beginSteps(SingleRowProducts products, int numSteps, int numTokens) {
        for (int i = 0; i < numSteps; i++) {
            products.beginStep(numTokens);
        }
    }

    private static int numTaken(SingleRowProducts products, PackedPanel panel, int numTasks) {
        int numTaken = 0;
        for (int i = 0; i < numTasks; i++) {
            numTaken += products.takes(1, panel) ? 1 : 0;
        }
        return numTaken;
    }

    @Test
    void panelsOfFloat32AreLeftToTheLibrary() {
        try (MatmulShape shape = new MatmulShape(64, 64, NumberFormat.FLOAT32, ProductEnd.STORE, 64, false);
                RowProbe probe = new RowProbe(shape, kernels)) {
            assertEquals(null, shape.blocks());
            assertEquals(0, probe.sumDepth());
        }
    }

    /** One panel between two others, and what stands around its products. */
    private final class Case implements AutoCloseable {
        private final MatmulShape shape;
        private final MatmulThread thread;
        private final NativeArena arena = new NativeArena(1 << 20);
        private final PackedPanel panel;
        private final SingleRowProducts products;
        private final ActivationBuffer source;
        private final ActivationBuffer ours;
        private final ActivationBuffer theirs;
        private final short[] halves;
        private float scale = 1f;

        Case(NumberFormat format, int depth, int width, ProductEnd end, boolean hasBias, Random random) {
            int stride = 2 * width + 16;
            shape = new MatmulShape(depth, width, format, NumberFormat.BFLOAT16, end, stride, hasBias);
            try (RowProbe probe = new RowProbe(shape, kernels)) {
                shape.acceptSumDepth(probe.sumDepth());
            }
            thread = new MatmulThread(RowCounts.LARGEST * stride);
            arena.allocate(random.nextInt(1000));
            panel = packed(random);
            products = new SingleRowProducts(depth, width, thread.stream());
            source = new ActivationBuffer(8, depth, format, kernels);
            ours = new ActivationBuffer(8, stride, shape.resultFormat(), kernels);
            theirs = new ActivationBuffer(8, stride, shape.resultFormat(), kernels);
            halves = new short[Math.max(depth, stride)];
        }

        /** As in a JVM that has not multiplied single rows yet. */
        SingleRowProducts coldProducts() {
            return new SingleRowProducts(shape.depth(), shape.width(), thread.stream(), new AtomicInteger());
        }

        private PackedPanel packed(Random random) {
            try (NativeBuffer plain = new NativeBuffer(2L * shape.depth() * shape.width())) {
                ByteBuffer bytes = plain.asByteBuffer();
                for (int i = 0; i < shape.depth() * shape.width(); i++) {
                    bytes.putShort(Bfloat16.round((float) random.nextGaussian() * 0.05f));
                }
                return new PackedPanel(shape, plain, gaussian(shape.width(), random), arena, thread.stream());
            }
        }

        void fill(int row, Random random, float scale) {
            float[] values = gaussian(shape.depth(), random);
            for (int i = 0; i < values.length; i++) {
                values[i] *= scale;
            }
            source.put(row, 0, values, 0, shape.depth(), halves);
        }

        /** Row 3 of the source into row 2 of the target, from column 16 on. */
        void compare(Random random) {
            fill(3, random, scale);
            float[] there = gaussian(ours.width(), random);
            for (int r = 0; r < 8; r++) {
                ours.put(r, 0, there, 0, ours.width(), halves);
                theirs.put(r, 0, there, 0, ours.width(), halves);
            }
            float[] tile = gaussian(shape.width(), random);
            thread.writeTile(0, tile, tile.length);
            thread.multiply(source, 3, RowCounts.candidateOf(4), panel, theirs, 2, 16);
            products.begin();
            assertTrue(
                    shape.end() == ProductEnd.GATE
                            ? products.gate(source, 3, tile, panel, ours, 2, 16)
                            : products.multiply(source, 3, panel, ours, 2, 16));
            float[] expected = new float[ours.width()];
            float[] actual = new float[ours.width()];
            for (int r = 0; r < 3; r++) {
                theirs.getWidened(r, 0, expected, expected.length);
                ours.getWidened(r, 0, actual, actual.length);
                assertArrayEquals(bits(expected), bits(actual), shape + ", row " + r);
            }
        }

        @Override
        public void close() {
            panel.close();
            products.close();
            thread.close();
            arena.close();
            source.close();
            ours.close();
            theirs.close();
            shape.close();
        }
    }

    private static float[] gaussian(int count, Random random) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) random.nextGaussian() * 2f;
        }
        return values;
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        Arrays.setAll(bits, i -> Float.floatToRawIntBits(values[i]));
        return bits;
    }
}
