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
        float[][] factorsOfTiles = new float[Kernels.GROUP_TILES][NUM_ROWS];
        report("tiles to bfloat16", () -> {
            System.arraycopy(values, 0, out, 0, values.length);
            kernels.foldTiles(out, NUM_ROWS, 0, 1, maxima, sums, factorsOfTiles, true);
        });
        useAttention(kernels, random);
        useRows(kernels, values, ones, out);
        useLogits(LogitKernels.fastest(), values, out);
    }

    private static void useAttention(Kernels kernels, Random random) {
        int numRows = 19; // in sixes, fives, threes, twos and ones
        int headDim = 32;
        int[] offsets = {0, 512, 1024, 1536};
        int[] sameBlock = new int[4];
        int[] counts = new int[numRows];
        float[] queries = random(random, numRows * headDim);
        float[] floats = random(random, Kernels.TILE_SIZE * headDim);
        int[] pairs = new int[floats.length];
        kernels.pairBfloat16(floats, 0, floats, 0, pairs, 0, pairs.length);
        float[] scores = new float[numRows * Kernels.TILE_SIZE];
        float[] sums = new float[numRows * 2 * headDim];
        for (int numBlocks = 3; numBlocks <= 4; numBlocks++) {
            int blocks = numBlocks;
            Arrays.fill(counts, numBlocks * Kernels.BLOCK_SIZE);
            report(
                    "scores, float32",
                    () -> kernels.scores(queries, 0, numRows, headDim, floats, offsets, blocks, scores));
            report("scores, pairs", () -> kernels.scores(queries, 0, numRows, headDim, pairs, offsets, blocks, scores));
            report(
                    "sums of values, float32",
                    () -> kernels.accumulate(scores, 0, numRows, counts, headDim, floats, offsets, sums));
            report(
                    "sums of values, pairs",
                    () -> kernels.accumulate(scores, 0, numRows, counts, headDim, pairs, offsets, sums));
            report(
                    "sums of values of wide heads",
                    () -> kernels.accumulate(scores, 0, numRows, counts, 2 * headDim, floats, sameBlock, sums));
        }
    }

    private static void useRows(Kernels kernels, float[] values, float[] ones, float[] out) {
        short[] halves = new short[values.length];
        report("norms to bfloat16", () -> kernels.rmsNormToBfloat16(values, 0, ones, 1e-5f, halves, 0, values.length));
        report("rotations", () -> kernels.rotate(out, 0, ones, ones, 0, values.length / 2));
        report("bfloat16", () -> kernels.toBfloat16(values, 0, halves, 0, values.length));
        report("sums", () -> kernels.add(out, 0, values, 0, values.length));
    }

    private static void useLogits(LogitKernels logits, float[] values, float[] out) {
        float[] weights = new float[8 * LogitKernels.WINNER_GROUP];
        Arrays.fill(weights, 0.5f);
        double[] masses = new double[2];
        long[] planes = new long[4 * 64];
        report("draws", () -> logits.firstPossibleWinner(99, 1, 2, 3, weights, 0, weights.length, 0.25f, 1e-9f));
        report("noise", () -> logits.philoxBlocks(99, 1, 2, 3, 4, 64, planes, 64));
        report("weights", () -> logits.expDifferences(values, 0, values.length, 9f, 1.5f, out, 0));
        report("masses", () -> logits.addMasses(values, 0, weights, 0, values.length, 0.25f, 0, masses));
        report("maxima", () -> logits.finiteMax(values, 0, values.length));
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
