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
            kernels.multiply(new PairMemory(bytes), 0, PAIR_BYTES, 2, new float[] {9, 1, 1, 1, 1}, 1, sums, 1, 16);
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
            scalar.multiply(panel, firstByte, PAIR_BYTES, numPairs, row, rowOffset, expected, 3, numColumns);
            vector.multiply(panel, firstByte, PAIR_BYTES, numPairs, row, rowOffset, actual, 3, numColumns);
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
            kernels.multiply(panel, 0, PAIR_BYTES, 4, row, 0, sums, 0, 64);
            assertThrows(
                    IndexOutOfBoundsException.class,
                    () -> kernels.multiply(panel, 4, PAIR_BYTES, 4, row, 0, sums, 0, 64));
            assertThrows(
                    IndexOutOfBoundsException.class,
                    () -> kernels.multiply(panel, -4, PAIR_BYTES, 4, row, 0, sums, 0, 64));
        }
        assertThrows(IllegalArgumentException.class, () -> new PairMemory(ByteBuffer.allocate(64)));
    }
}
