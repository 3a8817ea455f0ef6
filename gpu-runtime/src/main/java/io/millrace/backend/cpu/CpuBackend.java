package io.millrace.backend.cpu;

import io.millrace.backend.Backend;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BatchInput;
import io.millrace.backend.KvTransfer;
import io.millrace.backend.SequenceFaultException;
import io.millrace.backend.StepHandle;
import io.millrace.backend.StepOutput;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import io.millrace.model.ModelSpec;
import io.millrace.model.RopeSpec;

/**
 * One engine's backend on the CPU. Owns its KV pool and activations; holds the process's compute threads and packed
 * weights together with other backends. A token's bits depend on its sequence alone: products run at row counts that were
 * probed to agree, single-threaded on fixed panels; everything else keeps one order of operations per element.
 */
final class CpuBackend implements Backend {
    /** Goes up whenever a change of the kernels changes bits, or one of the pool the order of exported KV. */
    private static final String KERNELS_VERSION = "kernels-v6";

    private final ComputeThreads threads;
    private final DecoderWeights weights;
    private final KvPool pool;
    private final KvTransfer kvTransfer;
    private final DecoderStep step;
    private final StepThread[] stepThreads;
    private final ComputeThreads.Program program = this::runStep;
    private long numLayerBlockReads;
    private Step current;
    private boolean isClosed;

    /** @param sharesReads whether blocks that several sequences share are read once for all of them; bits are the same */
    static CpuBackend open(BackendConfig config, NumberFormat format, boolean sharesReads, LogitsObserver observer) {
        Kernels kernels = KernelChoice.best().kernels();
        return open(config, format, sharesReads, kernels, config.model().spec().rope(), observer);
    }

    /** Opens with kernels, rotary frequencies and an observer of one's own; for tests. */
    static CpuBackend open(
            BackendConfig config, NumberFormat format, Kernels kernels, RopeSpec rope, LogitsObserver observer) {
        return open(config, format, true, kernels, rope, observer);
    }

    private static CpuBackend open(
            BackendConfig config,
            NumberFormat format,
            boolean sharesReads,
            Kernels kernels,
            RopeSpec rope,
            LogitsObserver observer) {
        KvPool pool = new KvPool(config.model().spec(), format, config.kvCacheDtype(), config.kvCacheMemoryBytes());
        ComputeThreads threads = ComputeThreads.acquire(config.numThreads());
        DecoderWeights weights = null;
        try {
            weights = SharedWeights.acquire(config.model(), format, kernels, threads);
            return new CpuBackend(config, sharesReads, threads, weights, pool, kernels, rope, observer);
        } catch (RuntimeException | Error e) {
            if (weights != null) {
                SharedWeights.release(weights);
            }
            ComputeThreads.release(threads);
            throw e;
        }
    }

    private CpuBackend(
            BackendConfig config,
            boolean sharesReads,
            ComputeThreads threads,
            DecoderWeights weights,
            KvPool pool,
            Kernels kernels,
            RopeSpec rope,
            LogitsObserver observer) {
        this.threads = threads;
        this.weights = weights;
        this.pool = pool;
        this.kvTransfer = new CpuKvTransfer(pool, this::verifyIdle);
        ModelSpec spec = config.model().spec();
        this.step = new DecoderStep(
                spec,
                weights,
                kernels,
                pool,
                new RopeTable(rope, config.maxModelLen()),
                config.maxNumBatchedTokens(),
                config.maxModelLen(),
                threads.numThreads(),
                sharesReads,
                observer);
        this.stepThreads = new StepThread[threads.numThreads()];
        threads.run(worker -> stepThreads[worker.index()] = new StepThread(step, config.logprobsMode()));
    }

    @Override
    public StepHandle submit(BatchInput input) {
        if (isClosed) {
            throw new IllegalStateException("the backend is closed");
        }
        if (current != null) {
            current.complete();
        }
        step.begin(input);
        numLayerBlockReads += step.numLayerBlockReads();
        current = new Step(threads.submit(program));
        return current;
    }

    private void runStep(ComputeThreads.Worker worker) {
        stepThreads[worker.index()].run(worker);
    }

    @Override
    public int numBlocks() {
        return pool.numBlocks();
    }

    @Override
    public long bytesPerBlock() {
        return pool.bytesPerBlock();
    }

    @Override
    public int blocksPerRun() {
        return Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;
    }

    @Override
    public long numKvBytesRead() {
        return numLayerBlockReads * (pool.bytesPerBlock() / step.spec.numLayers());
    }

    @Override
    public KvTransfer kvTransfer() {
        return kvTransfer;
    }

    private void verifyIdle() {
        if (isClosed || current != null && !current.isComplete) {
            throw new IllegalStateException(
                    isClosed ? "the backend is closed" : "KV is moved between steps only, and a step is in flight");
        }
    }

    KvPool pool() {
        return pool;
    }

    @Override
    public String numericFingerprint() {
        return "cpu/" + OneDnn.instructionSet() + "/onednn-" + OneDnn.version() + "/"
                + weights.format().optionName() + (pool.isInt8() ? "/kv-int8/" : "/") + KERNELS_VERSION;
    }

    @Override
    public synchronized void close() {
        if (isClosed) {
            return;
        }
        isClosed = true;
        if (current != null) {
            current.complete();
        }
        for (StepThread thread : stepThreads) {
            thread.close();
        }
        step.close();
        SharedWeights.release(weights);
        ComputeThreads.release(threads);
    }

    /** A submitted step. */
    private final class Step implements StepHandle {
        private final ComputeThreads.Job job;
        private StepOutput output;
        private Throwable failure;
        private boolean isComplete;

        Step(ComputeThreads.Job job) {
            this.job = job;
        }

        void complete() {
            if (isComplete) {
                return;
            }
            isComplete = true;
            try {
                job.await();
                DecoderStep.SequenceFault fault = step.fault();
                if (fault != null) {
                    failure = new SequenceFaultException(fault.sequence(), fault.message(), fault.cause());
                } else {
                    output = new StepOutput(step.tokenIds(), step.logprobs(), step.timer.times());
                }
            } catch (RuntimeException | Error e) {
                failure = e;
            }
            step.end();
        }

        @Override
        public StepOutput await() {
            complete();
            if (failure instanceof RuntimeException exception) {
                throw exception;
            }
            if (failure instanceof Error error) {
                throw error;
            }
            return output;
        }
    }
}
