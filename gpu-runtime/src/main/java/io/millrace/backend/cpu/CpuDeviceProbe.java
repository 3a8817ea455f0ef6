package io.millrace.backend.cpu;

import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_DST;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_SRC;
import static org.bytedeco.dnnl.global.dnnl.DNNL_ARG_WEIGHTS;
import static org.bytedeco.dnnl.global.dnnl.dnnl_f32;
import static org.bytedeco.dnnl.global.dnnl.dnnl_format_tag_any;
import static org.bytedeco.dnnl.global.dnnl.dnnl_matmul_primitive_desc_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_clone;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_desc_get_size;
import static org.bytedeco.dnnl.global.dnnl.dnnl_memory_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_desc_query_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_primitive_execute;
import static org.bytedeco.dnnl.global.dnnl.dnnl_query_weights_md;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_create;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_default_flags;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_destroy;
import static org.bytedeco.dnnl.global.dnnl.dnnl_stream_wait;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.bytedeco.dnnl.dnnl_exec_arg_t;
import org.bytedeco.dnnl.dnnl_memory;
import org.bytedeco.dnnl.dnnl_memory_desc;
import org.bytedeco.dnnl.dnnl_primitive;
import org.bytedeco.dnnl.dnnl_primitive_desc;
import org.bytedeco.dnnl.dnnl_stream;
import org.bytedeco.javacpp.BytePointer;
import org.bytedeco.javacpp.Pointer;

/**
 * Measures what this machine can reach, independently of the engine's own code: streaming reads and copies by all threads
 * over buffers far larger than the caches, and large oneDNN products by all cores. Takes a few seconds, reports the best
 * of several tries, and keeps no thread or memory afterwards. Results are for plans and reports; no code path may be
 * chosen by them.
 */
public final class CpuDeviceProbe {
    private static final int NUM_TRIES = 7;
    private static final int NUM_ROWS = 1024;
    private static final int DEPTH = 2048;
    private static final int WIDTH = 2048;
    private static final long MIN_BUFFER_BYTES = 512L << 20;
    private static final int CACHE_MULTIPLE = 4;

    private CpuDeviceProbe() {}

    /**
     * What was measured.
     *
     * @param numThreads that read and multiplied
     * @param memoryBytes the machine's physical memory, or its container's share
     * @param bufferBytes read and copied, all threads together
     * @param readBytesPerSecond best streaming read
     * @param copyBytesPerSecond best copy; each byte counts once though it is read and written
     * @param bfloat16FlopsPerSecond best bf16 product; empty where the CPU does not multiply bf16 natively
     * @param float32FlopsPerSecond best float32 product
     * @param keepsBfloat16Weights whether float32 products read the weights of a BF16 checkpoint as they are stored
     * @param productShape rows x depth x width of the products
     */
    public record Rates(
            int numThreads,
            long memoryBytes,
            long bufferBytes,
            double readBytesPerSecond,
            double copyBytesPerSecond,
            OptionalDouble bfloat16FlopsPerSecond,
            double float32FlopsPerSecond,
            boolean keepsBfloat16Weights,
            String productShape) {}

    /**
     * Measures; call from a thread that has nothing else to do, on an otherwise idle machine.
     *
     * @throws IllegalStateException if the heap is too small for buffers beyond the caches, or oneDNN does not load here
     */
    public static Rates measure() {
        int numThreads = Runtime.getRuntime().availableProcessors();
        long bufferBytes = bufferBytes();
        double[] memory = measureMemory(numThreads, bufferBytes);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        try {
            return new Rates(
                    numThreads,
                    system.getTotalMemorySize(),
                    bufferBytes,
                    memory[0],
                    memory[1],
                    OneDnn.hasBfloat16()
                            ? OptionalDouble.of(productFlopsPerSecond(numThreads, NumberFormat.BFLOAT16))
                            : OptionalDouble.empty(),
                    productFlopsPerSecond(numThreads, NumberFormat.FLOAT32),
                    CpuBackendProvider.keepsBfloat16Weights(),
                    NUM_ROWS + " x " + DEPTH + " x " + WIDTH);
        } catch (LinkageError e) {
            throw new IllegalStateException(
                    "oneDNN does not load on " + System.getProperty("os.name") + " " + System.getProperty("os.arch")
                            + " (" + e.getMessage() + "), it is bundled for Linux on x86-64; plan for a named device",
                    e);
        }
    }

    private static long bufferBytes() {
        long lastLevelCacheBytes = lastLevelCacheBytes();
        long wanted = Math.max(MIN_BUFFER_BYTES, CACHE_MULTIPLE * lastLevelCacheBytes);
        long available = Runtime.getRuntime().maxMemory() * 2 / 3;
        if (wanted > available) {
            throw new IllegalStateException("measuring memory bandwidth needs buffers of " + (wanted >> 20)
                    + " MiB (caches of " + (lastLevelCacheBytes >> 20) + " MiB), the heap of "
                    + (Runtime.getRuntime().maxMemory() >> 20) + " MiB leaves " + (available >> 20)
                    + " MiB; raise -Xmx to " + ((wanted * 3 / 2) >> 20) + "m or more");
        }
        return wanted;
    }

    /** All last-level caches that Linux shows, added up; 0 where it shows none. */
    private static long lastLevelCacheBytes() {
        java.util.Map<String, Long> sizes = new java.util.TreeMap<>();
        for (int cpu = 0; cpu < Runtime.getRuntime().availableProcessors(); cpu++) {
            Path cache = Path.of("/sys/devices/system/cpu/cpu" + cpu + "/cache/index3");
            try {
                String size = Files.readString(cache.resolve("size")).strip();
                String sharedBy =
                        Files.readString(cache.resolve("shared_cpu_list")).strip();
                if (size.matches("[0-9]{1,9}K")) {
                    sizes.put(sharedBy, Long.parseLong(size.substring(0, size.length() - 1)) << 10);
                }
            } catch (IOException e) {
                return sizes.values().stream().mapToLong(Long::longValue).sum(); // not Linux, or no such cache
            }
        }
        return sizes.values().stream().mapToLong(Long::longValue).sum();
    }

    /** Best read and best copy rate of all threads, each over its own share, first touched by itself. */
    private static double[] measureMemory(int numThreads, long bufferBytes) {
        int numLongs = (int) Math.min(Integer.MAX_VALUE - 8, bufferBytes / numThreads / Long.BYTES) & ~15;
        double[] bestSeconds = {Double.MAX_VALUE, Double.MAX_VALUE};
        long[] starts = new long[1];
        CyclicBarrier barrier = new CyclicBarrier(numThreads + 1);
        ExecutorService threads = Executors.newFixedThreadPool(numThreads, task -> {
            Thread thread = new Thread(task, "millrace-memory-probe");
            thread.setDaemon(true);
            return thread;
        });
        try {
            List<Future<Long>> readers = new ArrayList<>();
            for (int i = 0; i < numThreads; i++) {
                readers.add(threads.submit(() -> readAndCopy(numLongs, barrier)));
            }
            barrier.await();
            for (int pass = 0; pass < 2 * NUM_TRIES; pass++) {
                starts[0] = System.nanoTime();
                barrier.await();
                barrier.await();
                int kind = pass / NUM_TRIES;
                bestSeconds[kind] = Math.min(bestSeconds[kind], (System.nanoTime() - starts[0]) * 1e-9);
            }
            for (Future<Long> reader : readers) {
                reader.get();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("measuring memory bandwidth was interrupted", e);
        } catch (BrokenBarrierException | ExecutionException e) {
            throw new IllegalStateException("measuring memory bandwidth failed: " + e, e);
        } finally {
            threads.shutdownNow();
            awaitEnd(threads);
        }
        double bytes = (double) numLongs * Long.BYTES * numThreads;
        return new double[] {bytes / bestSeconds[0], bytes / 2 / bestSeconds[1]};
    }

    private static void awaitEnd(ExecutorService threads) {
        try {
            if (!threads.awaitTermination(10, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the threads that measure memory bandwidth do not end");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static long readAndCopy(int numLongs, CyclicBarrier barrier)
            throws InterruptedException, BrokenBarrierException {
        long[] buffer = new long[numLongs];
        java.util.Arrays.fill(buffer, 0x9E3779B97F4A7C15L);
        long sum = 0;
        for (int i = 0; i < 16; i++) {
            sum ^= sum(buffer, 0, 1 << 14); // compiled before the first pass
        }
        barrier.await();
        for (int pass = 0; pass < 2 * NUM_TRIES; pass++) {
            barrier.await();
            if (pass < NUM_TRIES) {
                sum ^= sum(buffer, 0, numLongs);
            } else {
                System.arraycopy(buffer, 0, buffer, numLongs / 2, numLongs / 2);
            }
            barrier.await();
        }
        return sum ^ buffer[numLongs - 1];
    }

    /** Eight independent sums hide the additions behind the loads. */
    private static long sum(long[] x, int from, int to) {
        long a = 0;
        long b = 0;
        long c = 0;
        long d = 0;
        long e = 0;
        long f = 0;
        long g = 0;
        long h = 0;
        for (int i = from; i < to; i += 8) {
            a += x[i];
            b += x[i + 1];
            c += x[i + 2];
            d += x[i + 3];
            e += x[i + 4];
            f += x[i + 5];
            g += x[i + 6];
            h += x[i + 7];
        }
        return a + b + c + d + (e + f + g + h);
    }

    /** oneDNN's own threads share one product; where OMP_NUM_THREADS narrows them, several callers fill the cores. */
    private static double productFlopsPerSecond(int numThreads, NumberFormat format) {
        int numCallers = Math.max(1, numThreads / openMpThreads(numThreads));
        double best = 0;
        try (Products products = new Products(numCallers, format)) {
            for (int i = 0; i < NUM_TRIES; i++) {
                best = Math.max(best, numCallers * 2.0 * NUM_ROWS * DEPTH * WIDTH / products.seconds());
            }
        }
        return best;
    }

    private static int openMpThreads(int numThreads) {
        String value = System.getenv("OMP_NUM_THREADS");
        return value != null && value.strip().matches("[1-9][0-9]{0,4}")
                ? Math.min(numThreads, Integer.parseInt(value.strip()))
                : numThreads;
    }

    /** The same product for every caller, each on its own operands, all on one packed layout. */
    private static final class Products implements AutoCloseable {
        private final dnnl_primitive primitive = new dnnl_primitive();
        private final dnnl_primitive_desc descriptor = new dnnl_primitive_desc();
        private final dnnl_memory_desc source;
        private final dnnl_memory_desc weights = new dnnl_memory_desc();
        private final dnnl_memory_desc destination;
        private final List<Caller> callers = new ArrayList<>();

        Products(int numCallers, NumberFormat format) {
            source = OneDnn.matrix(NUM_ROWS, DEPTH, format.dataType(), DEPTH, 1);
            destination = OneDnn.matrix(NUM_ROWS, WIDTH, dnnl_f32, WIDTH, 1);
            dnnl_memory_desc any = OneDnn.matrixOfLayout(DEPTH, WIDTH, format.dataType(), dnnl_format_tag_any);
            OneDnn.check(
                    dnnl_matmul_primitive_desc_create(
                            descriptor, OneDnn.engine(), source, any, null, destination, null),
                    "describe a product in " + format.optionName());
            OneDnn.check(
                    dnnl_memory_desc_clone(weights, dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0)),
                    "describe packed weights");
            dnnl_memory_desc_destroy(any);
            OneDnn.check(dnnl_primitive_create(primitive, descriptor), "create a product");
            for (int i = 0; i < numCallers; i++) {
                callers.add(new Caller(source, weights, destination));
            }
        }

        /** One product by every caller at once; the time until the last has ended. */
        double seconds() {
            if (callers.size() == 1) {
                long start = System.nanoTime();
                callers.get(0).run(primitive);
                return (System.nanoTime() - start) * 1e-9;
            }
            List<Thread> threads = new ArrayList<>();
            java.util.concurrent.CountDownLatch go = new java.util.concurrent.CountDownLatch(1);
            for (Caller caller : callers) {
                Thread thread = new Thread(
                        () -> {
                            try {
                                go.await();
                                caller.run(primitive);
                            } catch (InterruptedException e) {
                                Thread.currentThread().interrupt();
                            }
                        },
                        "millrace-product-probe");
                thread.start();
                threads.add(thread);
            }
            long start = System.nanoTime();
            go.countDown();
            try {
                for (Thread thread : threads) {
                    thread.join();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("measuring products was interrupted", e);
            }
            return (System.nanoTime() - start) * 1e-9;
        }

        @Override
        public void close() {
            callers.forEach(Caller::close);
            dnnl_primitive_destroy(primitive);
            dnnl_primitive_desc_destroy(descriptor);
            dnnl_memory_desc_destroy(source);
            dnnl_memory_desc_destroy(weights);
            dnnl_memory_desc_destroy(destination);
        }
    }

    /** One caller's operands. Every byte is 0x3C, in bf16 and float32 alike about 0.0115: ordinary numbers, none denormal. */
    private static final class Caller implements AutoCloseable {
        private final dnnl_stream stream = new dnnl_stream();
        private final List<BytePointer> data = new ArrayList<>();
        private final List<dnnl_memory> memories = new ArrayList<>();
        private final dnnl_exec_arg_t arguments = new dnnl_exec_arg_t(3);

        Caller(dnnl_memory_desc source, dnnl_memory_desc weights, dnnl_memory_desc destination) {
            OneDnn.check(dnnl_stream_create(stream, OneDnn.engine(), dnnl_stream_default_flags), "create a stream");
            operand(0, DNNL_ARG_SRC, source);
            operand(1, DNNL_ARG_WEIGHTS, weights);
            operand(2, DNNL_ARG_DST, destination);
            arguments.position(0);
        }

        private void operand(int position, int argument, dnnl_memory_desc layout) {
            long numBytes = dnnl_memory_desc_get_size(layout);
            BytePointer pointer = new BytePointer(numBytes);
            Pointer.memset(pointer, 0x3C, numBytes);
            dnnl_memory memory = new dnnl_memory();
            OneDnn.check(dnnl_memory_create(memory, layout, OneDnn.engine(), pointer), "describe an operand");
            data.add(pointer);
            memories.add(memory);
            arguments.position(position).arg(argument).memory(memory);
        }

        void run(dnnl_primitive primitive) {
            OneDnn.check(dnnl_primitive_execute(primitive, stream, 3, arguments), "multiply");
            OneDnn.check(dnnl_stream_wait(stream), "wait for a product");
        }

        @Override
        public void close() {
            memories.forEach(memory -> dnnl_memory_destroy(memory));
            dnnl_stream_destroy(stream);
            arguments.deallocate();
            data.forEach(BytePointer::deallocate);
        }
    }
}
