package io.millrace.bench.scenario;

import io.millrace.backend.BackendProvider;
import io.millrace.backend.cpu.CpuBackendProvider;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.EngineStats;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.Request;
import io.millrace.engine.StepReport;
import io.millrace.plan.ModelShape;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.LogprobsMode;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/** An engine that is stepped on the caller's thread and watched while it works. One thread. */
final class EngineSession implements AutoCloseable {
    static final int BLOCK_SIZE = EngineConfig.DEFAULT_BLOCK_SIZE;
    private static final int MAX_NUM_BATCHED_TOKENS = EngineConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS;
    private static final double STABLE = 0.03;
    private static final int STEPS_PER_WINDOW = 8;
    private static final long WAIT_NANOS = 50_000;

    private final InferenceEngine engine;
    private final BenchSettings settings;

    /**
     * What shapes a session's engine.
     *
     * @param maxNumSeqs most sequences of a step
     * @param numKvTokens tokens that the KV pool holds; whole blocks
     * @param prefixCaching whether prompts reuse each other's blocks
     * @param sharedReads whether attention reads shared blocks once
     * @param tier how prefixes are kept; null for no tier
     * @param store where they are kept, closed with the session; null for no tier
     */
    record Options(
            int maxNumSeqs,
            long numKvTokens,
            boolean prefixCaching,
            boolean sharedReads,
            TierConfig tier,
            PrefixStore store) {
        Options(int maxNumSeqs, long numKvTokens, boolean prefixCaching, boolean sharedReads) {
            this(maxNumSeqs, numKvTokens, prefixCaching, sharedReads, null, null);
        }

        static Options of(int maxNumSeqs, long numKvTokens) {
            return new Options(maxNumSeqs, numKvTokens, false, true);
        }
    }

    EngineSession(BenchSettings settings, Options options) {
        this.settings = settings;
        BackendProvider provider = new CpuBackendProvider(options.sharedReads());
        this.engine = InferenceEngine.open(config(settings, options), provider, options.store());
        if (engine.numericFingerprint().contains("/bfloat16/") != settings.bfloat16()) {
            engine.close();
            throw new IllegalStateException("the engine computes as " + engine.numericFingerprint()
                    + ", but the ceilings would be measured in " + (settings.bfloat16() ? "bfloat16" : "float32")
                    + "; say which with --dtype");
        }
    }

    static EngineConfig config(BenchSettings settings, Options options) {
        long numBlocks = (options.numKvTokens() + BLOCK_SIZE - 1) / BLOCK_SIZE;
        return new EngineConfig(
                        settings.model().directory().toString(),
                        "cpu",
                        settings.dtype(),
                        0,
                        options.maxNumSeqs(),
                        MAX_NUM_BATCHED_TOKENS,
                        numBlocks * BLOCK_SIZE * kvBytesPerToken(settings),
                        options.prefixCaching(),
                        BLOCK_SIZE,
                        settings.numThreads(),
                        LogprobsMode.RAW_LOGPROBS)
                .withTier(options.tier());
    }

    /** KV bytes of a token in the format that the settings' dtype comes to on this machine. */
    static long kvBytesPerToken(BenchSettings settings) {
        return settings.model().shape().numKvValuesPerToken() * (settings.bfloat16() ? 2L : 4L);
    }

    /** Bytes of all matrices that a step reads, as they are held; of an embedding that is no LM head it reads next to nothing. */
    static long matrixBytes(BenchSettings settings) {
        ModelShape shape = settings.model().shape();
        long queryWidth = (long) shape.numQueryHeads() * shape.headDim();
        long kvWidth = (long) shape.numKvHeads() * shape.headDim();
        long layer =
                2 * shape.hiddenSize() * (queryWidth + kvWidth) + 3L * shape.hiddenSize() * shape.intermediateSize();
        long values = shape.numLayers() * layer + (long) shape.vocabSize() * shape.hiddenSize();
        return values * settings.bytesPerWeight();
    }

    InferenceEngine engine() {
        return engine;
    }

    EngineStats stats() {
        return engine.stats();
    }

    void submit(Request request) {
        engine.submit(request);
    }

    /**
     * One step; fails if a request did. Waits where all waits for the prefix store.
     *
     * @return what the step did, or null when there was nothing to do
     */
    StepReport step() {
        StepReport report;
        while ((report = engine.step()) == null && !engine.isIdle()) {
            LockSupport.parkNanos(WAIT_NANOS);
        }
        if (report != null && !report.failures().isEmpty()) {
            throw new IllegalStateException("the engine refused a bench's request: "
                    + report.failures().get(0).message() + "; "
                    + report.failures().get(0).remedy());
        }
        return report;
    }

    /** Steps until all is done; returns the seconds. */
    double runToEnd(List<Request> requests, Consumer<StepReport> onStep) {
        long start = System.nanoTime();
        requests.forEach(engine::submit);
        StepReport report;
        while ((report = step()) != null) {
            onStep.accept(report);
        }
        return (System.nanoTime() - start) / 1e9;
    }

    double runToEnd(List<Request> requests) {
        return runToEnd(requests, report -> {});
    }

    /** Ends everything that is under way. */
    void cancel(List<Request> requests) {
        requests.forEach(request -> engine.cancel(request.id()));
        while (step() != null) {}
    }

    /** Steps until every submitted sequence has its prompt computed and decodes. */
    void prefill(int numSequences) {
        long tokensBefore = -1;
        while (stats().numRunningSequences() < numSequences || tokensBefore != stats().numPromptTokens()) {
            tokensBefore = stats().numPromptTokens();
            if (step() == null) {
                throw new IllegalStateException("the engine ran dry before " + numSequences
                        + " sequences decoded together; its KV pool or its slots are too few");
            }
        }
    }

    /**
     * Runs decode steps until their median time and what they allocate move by less than 3 % from window to window while compilers
     * rest, or for maxSeconds: what is interpreted still is slow, and allocates what compiled code does not.
     */
    void warmUp(Workload workload, int numSequences, int contextTokens, double maxSeconds) {
        long deadline = System.nanoTime() + (long) (maxSeconds * 1e9);
        double before = Double.POSITIVE_INFINITY;
        double allocatedBefore = Double.POSITIVE_INFINITY;
        Allocation allocation = new Allocation();
        Compilers compilers = new Compilers();
        int numStable = 0;
        int maxSteps = Math.max(64, settings.model().shape().maxPositionEmbeddings() - contextTokens);
        List<Request> requests = new java.util.ArrayList<>();
        for (int i = 0; i < numSequences; i++) {
            requests.add(workload.request(contextTokens, Math.min(1024, maxSteps)));
        }
        requests.forEach(this::submit);
        prefill(numSequences);
        while (numStable < 2 && System.nanoTime() < deadline && !engine.isIdle()) {
            Samples window = new Samples();
            allocation.begin();
            compilers.begin();
            for (int i = 0; i < STEPS_PER_WINDOW && !engine.isIdle(); i++) {
                window.add(timedStep());
            }
            double median = window.median();
            double allocated = allocation.end();
            boolean allocatesLess = allocated < (1 - STABLE) * allocatedBefore;
            boolean settled = Math.abs(median - before) <= STABLE * before && !allocatesLess && compilers.haveRested();
            numStable = settled ? numStable + 1 : 0;
            before = median;
            allocatedBefore = allocated;
        }
        cancel(requests);
    }

    /** One step's seconds; there must be something to do. */
    double timedStep() {
        long start = System.nanoTime();
        if (step() == null) {
            throw new IllegalStateException("the engine had nothing to do in a step that was to be timed");
        }
        return (System.nanoTime() - start) / 1e9;
    }

    @Override
    public void close() {
        engine.close();
    }
}
