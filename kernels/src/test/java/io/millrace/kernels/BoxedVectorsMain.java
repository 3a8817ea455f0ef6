package io.millrace.kernels;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Random;

/**
 * Run by {@link BoxedVectorsTest} in a JVM of its own: kernels of many operations after ones of few, which were used so long that
 * the JDK's methods for vectors have been compiled by themselves. Prints what each allocates when it is compiled.
 */
final class BoxedVectorsMain {
    private static final int NUM_CALLS_BEFORE = 5000;
    private static final int NUM_CALLS = 60_000;
    private static final int NUM_COUNTED_CALLS = 1000;
    private static final int NUM_ROWS = 4;
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private BoxedVectorsMain() {}

    public static void main(String[] arguments) {
        Kernels kernels = KernelChoice.best().kernels();
        LogitKernels logits = LogitKernels.fastest();
        Random random = new Random(7);
        float[] values = random(random, NUM_ROWS * Kernels.TILE_SIZE);
        float[] ones = new float[values.length];
        Arrays.fill(ones, 1f);
        float[] out = new float[values.length];
        for (int call = 0; call < NUM_CALLS_BEFORE; call++) {
            kernels.rmsNorm(values, 0, ones, 1e-5f, out, 0, values.length);
        }

        int[] counts = new int[NUM_ROWS];
        Arrays.fill(counts, Kernels.TILE_SIZE);
        float[] maxima = new float[NUM_ROWS];
        float[] sums = new float[NUM_ROWS * Kernels.LANES];
        float[] factors = new float[NUM_ROWS];
        report("scores to float32", () -> {
            System.arraycopy(values, 0, out, 0, values.length);
            kernels.foldScores(out, 0, Kernels.TILE_SIZE, 0, NUM_ROWS, counts, maxima, sums, factors, false);
        });
        report("scores to bfloat16", () -> {
            System.arraycopy(values, 0, out, 0, values.length);
            kernels.foldScores(out, 0, Kernels.TILE_SIZE, 0, NUM_ROWS, counts, maxima, sums, factors, true);
        });
        float[] weights = new float[8 * LogitKernels.WINNER_GROUP];
        Arrays.fill(weights, 0.5f);
        report("draws", () -> logits.firstPossibleWinner(99, 1, 2, 3, weights, 0, weights.length, 0.25f, 1e-9f));
        report("weights", () -> logits.expDifferences(values, 0, values.length, 9f, 1.5f, out, 0));
    }

    private static float[] random(Random random, int length) {
        float[] values = new float[length];
        for (int i = 0; i < length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    private static void report(String name, Runnable kernel) {
        for (int call = 0; call < NUM_CALLS; call++) {
            kernel.run();
        }
        long before = THREADS.getCurrentThreadAllocatedBytes();
        for (int call = 0; call < NUM_COUNTED_CALLS; call++) {
            kernel.run();
        }
        long numBytes = THREADS.getCurrentThreadAllocatedBytes() - before;
        System.out.println("allocated " + numBytes / NUM_COUNTED_CALLS + " bytes a call by " + name);
    }
}
