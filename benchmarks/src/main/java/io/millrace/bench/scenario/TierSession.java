package io.millrace.bench.scenario;

import io.millrace.backend.cpu.CpuBackendProvider;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.EngineStats;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.Request;
import io.millrace.engine.StepReport;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;

/** An engine with a prefix store, or with none, stepped on the caller's thread. One thread. */
final class TierSession implements AutoCloseable {
    private static final int MAX_NUM_SEQS = 64;
    private static final long WAIT_NANOS = 50_000;
    private static final String MEASURED = "measured-";

    private final InferenceEngine engine;
    private final Workload workload;
    private final int maxNumBatchedTokens;
    private final Map<String, Integer> others = new HashMap<>(); // tokens of each that has not ended
    private long numMeasured;
    private long numOthersSubmitted;
    private long numOthersDone; // tokens

    /**
     * What shapes the engine.
     *
     * @param maxNumBatchedTokens token budget of a step
     * @param numKvTokens tokens that the KV pool holds
     * @param tier null for none
     * @param store null for none; closed with the session
     * @param loadsOnly whether computing is made so slow that a stored prompt is loaded as a whole
     */
    record Options(int maxNumBatchedTokens, int numKvTokens, TierConfig tier, PrefixStore store, boolean loadsOnly) {
        Options(int maxNumBatchedTokens, int numKvTokens, TierConfig tier, PrefixStore store) {
            this(maxNumBatchedTokens, numKvTokens, tier, store, false);
        }
    }

    /**
     * How the first token of a prompt came.
     *
     * @param seconds until it did
     * @param numTierTokens of the prompt, loaded and used
     * @param curve how far the prompt was computed when
     */
    record FirstToken(double seconds, int numTierTokens, ComputeCurve curve) {}

    TierSession(BenchSettings settings, Options options) {
        maxNumBatchedTokens = options.maxNumBatchedTokens();
        workload = new Workload(settings.model().shape().vocabSize(), settings.seed() + 1);
        int blockSize = EngineConfig.DEFAULT_BLOCK_SIZE;
        long numBlocks = (options.numKvTokens() + blockSize - 1L) / blockSize;
        EngineConfig config = new EngineConfig(
                        settings.model().directory().toString(),
                        "cpu",
                        settings.dtype(),
                        0,
                        MAX_NUM_SEQS,
                        maxNumBatchedTokens,
                        numBlocks * blockSize * EngineSession.kvBytesPerToken(settings),
                        true,
                        blockSize,
                        settings.numThreads(),
                        LogprobsMode.RAW_LOGPROBS)
                .withTier(options.tier());
        engine = options.loadsOnly()
                ? InferenceEngine.open(config, new SlowComputeProvider(new CpuBackendProvider()), options.store())
                : InferenceEngine.open(config, options.store());
    }

    EngineStats stats() {
        return engine.stats();
    }

    /**
     * Serves one prompt to its first token. Before every step other requests, served first, bring what is not the prompt's.
     *
     * @param computeShare of every step's token budget that the prompt may have
     */
    FirstToken firstToken(int[] prompt, double computeShare) {
        int numOthers = (int) Math.round(maxNumBatchedTokens * (1 - computeShare));
        String id = MEASURED + numMeasured++;
        ComputeCurve curve = new ComputeCurve();
        long computedBefore = stats().numPromptTokens();
        long othersBefore = numOthersDone;
        long start = System.nanoTime();
        engine.submit(request(id, prompt, 0));
        SampleDelta first = null;
        double seconds = 0;
        while (first == null) {
            // A step may leave some of the others' tokens to the next one, which then has the fewer new ones.
            if (numOthers > numOthersLeft()) {
                submitOther(numOthers - numOthersLeft());
            }
            StepReport report = stepOrWait();
            seconds = (System.nanoTime() - start) / 1e9;
            long othersComputed = numOthersDone - othersBefore;
            curve.add((int) (stats().numPromptTokens() - computedBefore - othersComputed), seconds);
            first = report == null ? null : find(report, id);
        }
        drain();
        if (first.finished().numCachedTokens() > 0) {
            throw new IllegalStateException("of a prompt that was to be loaded or computed "
                    + first.finished().numCachedTokens() + " tokens were still in memory");
        }
        return new FirstToken(seconds, first.finished().numTierTokens(), curve);
    }

    private int numOthersLeft() {
        return others.values().stream().mapToInt(Integer::intValue).sum();
    }

    private void submitOther(int numTokens) {
        String id = "other-" + numMeasured + "-" + numOthersSubmitted++;
        others.put(id, numTokens);
        engine.submit(request(id, workload.prompt(numTokens), -1));
    }

    private static SampleDelta find(StepReport report, String id) {
        for (SampleDelta delta : report.deltas()) {
            if (delta.requestId().equals(id)) {
                return delta;
            }
        }
        return null;
    }

    /** Steps until everything submitted has ended, and what is stored behind was handed over. */
    void drain() {
        do {
            stepOrWait(); // once more when idle: that is when the rest is handed over
        } while (!engine.isIdle());
    }

    /** Submits a request of one token to draw. */
    void submit(String id, int[] prompt) {
        engine.submit(request(id, prompt, 0));
    }

    /** Steps until these have ended; returns the seconds since a start at which each did, in the order given. */
    double[] runToEnd(List<String> ids, long startNanos) {
        double[] ends = new double[ids.size()];
        Set<String> left = new HashSet<>(ids);
        while (!left.isEmpty()) {
            StepReport report = stepOrWait();
            double now = (System.nanoTime() - startNanos) / 1e9;
            for (SampleDelta delta : report == null ? List.<SampleDelta>of() : report.deltas()) {
                if (delta.finished() != null && left.remove(delta.requestId())) {
                    ends[ids.indexOf(delta.requestId())] = now;
                }
            }
        }
        return ends;
    }

    InferenceEngine engine() {
        return engine;
    }

    /** One step; where everything waits for the store, a short sleep and null. */
    private StepReport stepOrWait() {
        StepReport report = engine.step();
        if (report == null) {
            if (!engine.isIdle()) {
                LockSupport.parkNanos(WAIT_NANOS);
            }
            return null;
        }
        if (!report.failures().isEmpty()) {
            throw new IllegalStateException("the engine refused a bench's request: "
                    + report.failures().get(0).message() + "; "
                    + report.failures().get(0).remedy());
        }
        for (SampleDelta delta : report.deltas()) {
            Integer numTokens = others.remove(delta.requestId());
            numOthersDone += numTokens == null ? 0 : numTokens;
        }
        return report;
    }

    private static Request request(String id, int[] prompt, int priority) {
        SamplingParams sampling = SamplingParams.builder()
                .temperature(0)
                .maxTokens(1)
                .ignoreEos(true)
                .build();
        return new Request(id, prompt, sampling, priority, "", List.of(), false);
    }

    @Override
    public void close() {
        engine.close();
    }
}
