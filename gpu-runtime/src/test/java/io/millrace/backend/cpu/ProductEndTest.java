package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import java.nio.ByteBuffer;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Products with biases and everything that may end them, into the middle of wider rows, against sums in double. */
class ProductEndTest {
    private static final int DEPTH = 96;
    private static final int WIDTH = 48;
    private static final int STRIDE = 160;
    private static final int FIRST_COLUMN = 64;
    private static final int FIRST_ROW = 3;
    private static final int NUM_ROWS_BEHIND = 20;

    private final Kernels kernels = KernelChoice.best().kernels();
    private final Random random = new Random(5);

    @ParameterizedTest
    @CsvSource({
        "STORE, FLOAT32, 4",
        "ADD, FLOAT32, 64",
        "GATE, FLOAT32, 24",
        "STORE, BFLOAT16, 64",
        "ADD, BFLOAT16, 6",
        "GATE, BFLOAT16, 64",
        "GATE, BFLOAT16, 256"
    })
    void endsAsItSays(ProductEnd end, NumberFormat format, int numRows) {
        assumeTrue(format == NumberFormat.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        float[][] rows = gaussian(numRows, DEPTH, format, 1);
        float[][] columns = gaussian(WIDTH, DEPTH, format, 0.2f);
        float[] bias = gaussian(1, WIDTH, NumberFormat.FLOAT32, 1)[0];
        float[][] met = gaussian(numRows, WIDTH, NumberFormat.FLOAT32, 1);
        short[] scratch = new short[STRIDE];
        OneDnn.useOneThreadPerCall();
        try (MatmulShape shape = new MatmulShape(DEPTH, WIDTH, format, end, STRIDE, true);
                MatmulThread thread = new MatmulThread(numRows * STRIDE);
                NativeArena arena = new NativeArena(shape.packedBytes());
                PackedPanel panel = pack(shape, columns, bias, arena, thread);
                ActivationBuffer source = new ActivationBuffer(numRows, DEPTH, format, kernels);
                ActivationBuffer target =
                        new ActivationBuffer(FIRST_ROW + numRows, STRIDE, shape.resultFormat(), kernels)) {
            for (int r = 0; r < numRows; r++) {
                source.put(r, 0, rows[r], 0, DEPTH, scratch);
                if (end == ProductEnd.ADD) {
                    target.put(FIRST_ROW + r, FIRST_COLUMN, met[r], 0, WIDTH);
                } else {
                    thread.writeTile(r * STRIDE, met[r], WIDTH);
                }
            }
            thread.multiply(source, 0, RowCounts.candidateOf(numRows), panel, target, FIRST_ROW, FIRST_COLUMN);
            float[] whole = new float[STRIDE];
            for (int r = -FIRST_ROW; r < numRows + NUM_ROWS_BEHIND; r++) {
                target.getWidened(FIRST_ROW + r, 0, whole, STRIDE);
                for (int c = 0; c < STRIDE; c++) {
                    int column = c - FIRST_COLUMN;
                    boolean isInside = r >= 0 && r < numRows && column >= 0 && column < WIDTH;
                    double expected =
                            isInside ? expected(end, rows[r], columns[column], bias[column], met[r][column]) : 0;
                    double tolerance = shape.resultFormat() == NumberFormat.FLOAT32 ? 1e-4 : 1e-2;
                    double most = isInside ? tolerance * Math.max(1, Math.abs(expected)) : 0;
                    assertEquals(expected, whole[c], most, "row " + r + ", " + c);
                }
            }
        }
    }

    private static double expected(ProductEnd end, float[] row, float[] column, float bias, float met) {
        double sum = bias;
        for (int i = 0; i < row.length; i++) {
            sum += (double) row[i] * column[i];
        }
        return switch (end) {
            case STORE -> sum;
            case ADD -> met + sum;
            case GATE -> sum / (1 + Math.exp(-sum)) * met;
        };
    }

    private float[][] gaussian(int numRows, int width, NumberFormat format, float scale) {
        float[][] values = new float[numRows][width];
        for (float[] row : values) {
            for (int i = 0; i < width; i++) {
                float value = (float) random.nextGaussian() * scale;
                row[i] = format == NumberFormat.BFLOAT16 ? Bfloat16.widen(Bfloat16.round(value)) : value;
            }
        }
        return values;
    }

    private static PackedPanel pack(
            MatmulShape shape, float[][] columns, float[] bias, NativeArena arena, MatmulThread thread) {
        try (NativeBuffer plain =
                new NativeBuffer((long) DEPTH * WIDTH * shape.format().bytes())) {
            ByteBuffer bytes = plain.asByteBuffer();
            for (float[] column : columns) {
                for (float value : column) {
                    if (shape.format() == NumberFormat.BFLOAT16) {
                        bytes.putShort(Bfloat16.round(value));
                    } else {
                        bytes.putFloat(value);
                    }
                }
            }
            return new PackedPanel(shape, plain, bias, arena, thread.stream());
        }
    }
}
