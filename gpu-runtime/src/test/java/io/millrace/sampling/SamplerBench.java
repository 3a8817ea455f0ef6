package io.millrace.sampling;

import java.lang.management.ManagementFactory;
import java.util.Random;
import java.util.concurrent.CyclicBarrier;

/**
 * Times draws alone: rows of 49,152 logits, 64 of them so that they do not stay in the cores' own caches, shared by some
 * threads as compute threads do. Run its main with the test class path; arguments: threads (2), milliseconds a case (1500).
 */
final class SamplerBench {
    private static final int VOCAB = 49_152;
    private static final int NUM_ROWS = 64;
    private static final int NUM_POSITIONS = 32;

    private final int numThreads;
    private final long caseNanos;

    private SamplerBench(int numThreads, long caseNanos) {
        this.numThreads = numThreads;
        this.caseNanos = caseNanos;
    }

    public static void main(String[] arguments) throws Exception {
        int numThreads = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 2;
        long millis = arguments.length > 1 ? Long.parseLong(arguments[1]) : 1500;
        SamplerBench bench = new SamplerBench(numThreads, millis * 1_000_000);
        SamplingParams.Builder plain = SamplingParams.builder().seed(7);
        SamplingParams[] settings = {
            plain.temperature(1).topP(0.95f).build(),
            plain.topP(1).build(),
            plain.numLogprobs(0).build(),
            plain.numLogprobs(-1).minP(0.05f).build(),
            plain.minP(0).topP(0.5f).build(),
            plain.temperature(0.7f).topP(1).topK(50).build(),
            plain.topP(0.9f).build(),
            plain.temperature(0).topP(1).topK(0).build(),
        };
        String[] names = {
            "T 1, top_p 0.95",
            "T 1",
            "T 1, logprobs",
            "T 1, min_p 0.05",
            "T 1, top_p 0.5",
            "T 0.7, top_k 50",
            "T 0.7, top_k 50, top_p 0.9",
            "greedy"
        };
        for (boolean isPeaked : new boolean[] {false, true}) {
            float[] logits = isPeaked ? peaked() : flat();
            for (int i = 0; i < settings.length; i++) {
                bench.run((isPeaked ? "peaked, " : "flat, ") + names[i], logits, settings[i]);
            }
        }
    }

    private static float[] flat() {
        Random random = new Random(1);
        float[] logits = new float[NUM_ROWS * VOCAB];
        for (int i = 0; i < logits.length; i++) {
            logits[i] = 0.5f * (float) random.nextGaussian();
        }
        return logits;
    }

    /** A few likely tokens in each row. */
    private static float[] peaked() {
        Random random = new Random(2);
        float[] logits = flat();
        for (int i = 0; i < logits.length; i++) {
            logits[i] *= 5;
        }
        for (int i = 0; i < 20 * NUM_ROWS; i++) {
            logits[i / 20 * VOCAB + random.nextInt(VOCAB)] = 10 + 8 * random.nextFloat();
        }
        return logits;
    }

    private void run(String name, float[] logits, SamplingParams params) throws Exception {
        RowSampling[][] rows = new RowSampling[NUM_POSITIONS][NUM_ROWS];
        for (int position = 0; position < NUM_POSITIONS; position++) {
            for (int r = 0; r < NUM_ROWS; r++) {
                rows[position][r] = new RowSampling(params, r, position, new int[] {1}, 1, 1, new int[0]);
            }
        }
        CyclicBarrier barrier = new CyclicBarrier(numThreads);
        double[] micros = new double[numThreads];
        long[] bytes = new long[numThreads];
        long[] sums = new long[numThreads];
        Thread[] threads = new Thread[numThreads];
        for (int t = 0; t < numThreads; t++) {
            int thread = t;
            threads[t] = new Thread(() -> drawRows(thread, logits, rows, barrier, micros, bytes, sums));
            threads[t].start();
        }
        double sum = 0;
        long allocated = 0;
        long ids = 0;
        for (int t = 0; t < numThreads; t++) {
            threads[t].join();
            sum += micros[t] / numThreads;
            allocated += bytes[t] / numThreads;
            ids += sums[t];
        }
        System.out.printf(
                "%-36s %7.1f us a row and thread, %5.2f ms for %d rows; %d bytes a row; ids %x%n",
                name, sum, sum * NUM_ROWS / numThreads / 1000, NUM_ROWS, allocated, ids);
    }

    private void drawRows(
            int thread,
            float[] logits,
            RowSampling[][] rows,
            CyclicBarrier barrier,
            double[] micros,
            long[] bytes,
            long[] sums) {
        com.sun.management.ThreadMXBean threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        Sampler sampler = new Sampler(VOCAB, LogprobsMode.RAW_LOGPROBS);
        pass(thread, sampler, logits, rows, caseNanos / 2, micros, sums);
        try {
            barrier.await();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        long before = threads.getThreadAllocatedBytes(Thread.currentThread().getId());
        int numRows = pass(thread, sampler, logits, rows, caseNanos, micros, sums);
        bytes[thread] = (threads.getThreadAllocatedBytes(Thread.currentThread().getId()) - before) / numRows;
    }

    private int pass(
            int thread,
            Sampler sampler,
            float[] logits,
            RowSampling[][] rows,
            long nanos,
            double[] micros,
            long[] sums) {
        long start = System.nanoTime();
        int numDrawn = 0;
        int position = 0;
        while (System.nanoTime() - start < nanos || position < NUM_POSITIONS) {
            long sum = 0;
            for (int r = thread; r < NUM_ROWS; r += numThreads) {
                int offset = r * VOCAB;
                sum += sampler.draw(
                        logits, offset, sampler.finiteMax(logits, offset), rows[position % NUM_POSITIONS][r]);
                numDrawn++;
            }
            sums[thread] = position < NUM_POSITIONS ? (position == 0 ? 0 : sums[thread]) * 31 + sum : sums[thread];
            position++;
        }
        micros[thread] = (System.nanoTime() - start) / 1e3 / numDrawn;
        return numDrawn;
    }
}
