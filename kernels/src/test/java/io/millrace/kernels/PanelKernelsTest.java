package io.millrace.kernels;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Random;
import org.junit.jupiter.api.Test;

/** The vectorised kernel against its scalar twin, bit by bit, while it is interpreted, being compiled, and compiled. */
class PanelKernelsTest {
    private static final int PAIR_BYTES = 256;
    private static final int DEPTH_BYTES = 128;
    private static final int MAX_PAIRS = 300;

    private final PanelKernels vector = PanelKernels.fastest();
    private final PanelKernels scalar = PanelKernels.scalar();

    @Test
    void theVectorisedKernelRunsInTests() {
        assertTrue(vector instanceof VectorPanelKernels);
    }

    @Test
    void sumsOfAColumnAddTheSecondOfAPairFirst() {
        ByteBuffer bytes = ByteBuffer.allocateDirect(3 * PAIR_BYTES).order(ByteOrder.nativeOrder());
        putPair(bytes, PAIR_BYTES, 1f, 0x1p-24f);
        putPair(bytes, 2 * PAIR_BYTES, 0x1p-24f, -1f);
        bytes.position(PAIR_BYTES);
        float[] sums = new float[17];
        for (PanelKernels kernels : new PanelKernels[] {vector, scalar}) {
            kernels.multiplyPairs(new PairMemory(bytes), 0, PAIR_BYTES, 2, new float[] {9, 1, 1, 1, 1}, 1, sums, 1, 16);
            // 2^-24 + 1 is 1 in float32; 1 - 1 + 2^-24 is not 0.
            assertEquals(0x1p-24f, sums[1]);
        }
    }

    private static void putPair(ByteBuffer bytes, int at, float first, float second) {
        bytes.putInt(at, Float.floatToRawIntBits(first) >>> 16 | Float.floatToRawIntBits(second));
    }

    @Test
    void bitsAreTheScalarTwins() {
        for (int repeat = 0; repeat < 3000; repeat++) {
            Random random = new Random(repeat);
            ByteBuffer bytes =
                    ByteBuffer.allocateDirect(PAIR_BYTES * (MAX_PAIRS + 1)).order(ByteOrder.nativeOrder());
            for (int i = 0; i + 4 <= bytes.capacity(); i += 4) {
                putPair(bytes, i, Bfloat16.widen(half(random)), Bfloat16.widen(half(random)));
            }
            float[] row = new float[2 * MAX_PAIRS + 3];
            for (int i = 0; i < row.length; i++) {
                row[i] = Bfloat16.widen(half(random));
            }
            int numColumns = 16 * (1 + random.nextInt(4));
            int numPairs = 1 + random.nextInt(MAX_PAIRS);
            int firstByte = 4 * random.nextInt(PAIR_BYTES / 4);
            int rowOffset = random.nextInt(4);
            float[] expected = new float[70];
            float[] actual = new float[70];
            bytes.position(4 * random.nextInt(16));
            PairMemory panel = new PairMemory(bytes);
            bytes.clear(); // does not matter any more
            assertEquals(0, panel.bytes().position());
            scalar.multiplyPairs(panel, firstByte, PAIR_BYTES, numPairs, row, rowOffset, expected, 3, numColumns);
            vector.multiplyPairs(panel, firstByte, PAIR_BYTES, numPairs, row, rowOffset, actual, 3, numColumns);
            assertArrayEquals(bits(expected), bits(actual), "seed " + repeat);
        }
    }

    @Test
    void depthsAreAddedInAscendingOrder() {
        ByteBuffer bytes = ByteBuffer.allocateDirect(4 * DEPTH_BYTES).order(ByteOrder.nativeOrder());
        putPair(bytes, DEPTH_BYTES, 1f, 0x1p-24f);
        putPair(bytes, 2 * DEPTH_BYTES, 0x1p-24f, 1f);
        putPair(bytes, 3 * DEPTH_BYTES, -1f, -1f);
        bytes.position(DEPTH_BYTES);
        float[] sums = new float[17];
        for (PanelKernels kernels : new PanelKernels[] {vector, scalar}) {
            kernels.multiplyDepths(new PairMemory(bytes), 0, DEPTH_BYTES, 3, new float[] {9, 1, 1, 1}, 1, sums, 1, 16);
            // 1 + 2^-24 is 1 in float32, and so is 2^-24 + 1.
            assertEquals(0f, sums[1]);
            assertEquals(0f, sums[2]);
            kernels.multiplyDepths(new PairMemory(bytes), 0, DEPTH_BYTES, 3, new float[] {9, 1, 3, 1}, 1, sums, 1, 16);
            assertEquals(0x1p-22f, sums[1]); // 1 + 3 × 2^-24 is rounded up
            assertEquals(2f, sums[2]);
        }
    }

    @Test
    void bitsOfDepthsAreTheScalarTwins() {
        for (int repeat = 0; repeat < 3000; repeat++) {
            Random random = new Random(repeat);
            int maxDepths = 600;
            ByteBuffer bytes =
                    ByteBuffer.allocateDirect(DEPTH_BYTES * (maxDepths + 1)).order(ByteOrder.nativeOrder());
            for (int i = 0; i + 4 <= bytes.capacity(); i += 4) {
                putPair(bytes, i, Bfloat16.widen(half(random)), Bfloat16.widen(half(random)));
            }
            float[] row = new float[maxDepths + 3];
            for (int i = 0; i < row.length; i++) {
                row[i] = (float) random.nextGaussian();
            }
            int numColumns = 16 * (1 + random.nextInt(4));
            int depthBytes = numColumns > 48 || random.nextBoolean() ? DEPTH_BYTES : numColumns > 32 ? 96 : 64;
            int numDepths = 1 + random.nextInt(maxDepths - 1);
            int firstByte = 2 * random.nextInt(32);
            int rowOffset = random.nextInt(4);
            float[] expected = new float[70];
            float[] actual = new float[70];
            bytes.position(4 * random.nextInt(16));
            PairMemory panel = new PairMemory(bytes);
            scalar.multiplyDepths(panel, firstByte, depthBytes, numDepths, row, rowOffset, expected, 3, numColumns);
            vector.multiplyDepths(panel, firstByte, depthBytes, numDepths, row, rowOffset, actual, 3, numColumns);
            assertArrayEquals(bits(expected), bits(actual), "seed " + repeat);
        }
    }

    private static short half(Random random) {
        return Bfloat16.round((float) random.nextGaussian());
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < bits.length; i++) {
            bits[i] = Float.floatToRawIntBits(values[i]);
        }
        return bits;
    }

    @Test
    void nothingIsReadBeyondThePanel() {
        PairMemory panel = new PairMemory(ByteBuffer.allocateDirect(4 * PAIR_BYTES));
        float[] row = new float[8];
        float[] sums = new float[64];
        for (PanelKernels kernels : new PanelKernels[] {vector, scalar}) {
            kernels.multiplyPairs(panel, 0, PAIR_BYTES, 4, row, 0, sums, 0, 64);
            assertThrows(
                    IndexOutOfBoundsException.class,
                    () -> kernels.multiplyPairs(panel, 4, PAIR_BYTES, 4, row, 0, sums, 0, 64));
            assertThrows(
                    IndexOutOfBoundsException.class,
                    () -> kernels.multiplyPairs(panel, -4, PAIR_BYTES, 4, row, 0, sums, 0, 64));
            kernels.multiplyDepths(panel, 0, DEPTH_BYTES, 8, row, 0, sums, 0, 48);
            assertThrows(
                    IndexOutOfBoundsException.class,
                    () -> kernels.multiplyDepths(panel, 2 + 128, DEPTH_BYTES, 8, row, 0, sums, 0, 64));
        }
        assertThrows(IllegalArgumentException.class, () -> new PairMemory(ByteBuffer.allocate(64)));
    }
}
