package io.millrace.bench.tier;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvFormat;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.InferenceEngine;
import io.millrace.engine.ModelFacts;
import io.millrace.engine.Request;
import io.millrace.engine.StepReport;
import io.millrace.engine.StepReport.SampleDelta;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.LogprobsMode;
import io.millrace.sampling.SamplingParams;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.function.IntSupplier;

/**
 * The time until the first token of one stored prompt, on virtual time: the real engine (scheduler, blocks, loader) over a
 * device and a store that only take their time. Before every step other requests of higher priority bring as many tokens as
 * the measured prompt is to leave. One thread.
 */
public final class VirtualRun {
    private static final int VOCAB_SIZE = 512;
    private static final int FIRST_OTHER_ID = 3;
    private static final int MAX_MODEL_LEN = 1 << 15;
    private static final int BLOCK_SIZE = 16;
    private static final int NUM_BLOCKS = 4096;
    private static final int MAX_NUM_SEQS = 64;
    private static final long BUFFER_BYTES = 1L << 40; // chunks weigh next to nothing here
    private static final long LOAD_TIMEOUT_MILLIS = 1L << 40;
    private static final String MEASURED = "measured";
    private static final int LONGEST_TOKENS = 1 << 14;
    private static final int WARM_UP_TOKENS = 2048;
    private static final ModelFacts MODEL = new ModelFacts(VOCAB_SIZE, List.of(2), MAX_MODEL_LEN, "virtual");
    private static final long MEASURED_SEED = 0;
    private static final long WARM_UP_SEED = 1;

    private final VirtualClock clock = new VirtualClock();
    private final SplittableRandom random = new SplittableRandom(1);
    private final ComputeCosts costs;
    private final int maxNumBatchedTokens;
    private long numOthers;

    /**
     * What came of it.
     *
     * @param startNanos when the prompt was submitted
     * @param seconds until the first token
     * @param numLoadedTokens of the prompt, used from the store
     * @param numSteps of the engine
     * @param numOtherTokens of the requests that filled the steps
     */
    public record Outcome(long startNanos, double seconds, int numLoadedTokens, long numSteps, long numOtherTokens) {}

    /**
     * What came of a stored prompt and the short ones behind it.
     *
     * @param allSeconds until all had their first token
     * @param storedSeconds until the stored one had
     */
    public record MixedOutcome(double allSeconds, double storedSeconds) {}

    private VirtualRun(ComputeCosts costs, int maxNumBatchedTokens) {
        this.costs = costs;
        this.maxNumBatchedTokens = maxNumBatchedTokens;
    }

    /** All chunks of the longest prompt, of which the others are beginnings; for {@link #measure}. */
    public static Map<ChunkKey, byte[][]> storedChunks() {
        Map<ChunkKey, byte[][]> chunks = new HashMap<>();
        VirtualRun run = new VirtualRun(new ComputeCosts(1e-6, 0, 1e-6), 2048);
        VirtualStore store = new VirtualStore(run.clock, Bandwidth.constant(100), 1, chunks);
        run.firstToken(store, true, prompt(LONGEST_TOKENS, MEASURED_SEED), () -> 0);
        int numChunks = (LONGEST_TOKENS + WARM_UP_TOKENS) / VirtualCell.CHUNK_TOKENS;
        if (chunks.size() < numChunks) {
            throw new IllegalStateException(
                    "the engine stored " + chunks.size() + " of " + numChunks + " chunks of a prompt that it computed");
        }
        return chunks;
    }

    /** Runs a cell. */
    public static Outcome measure(VirtualCell cell, ComputeCosts costs, Map<ChunkKey, byte[][]> chunks) {
        VirtualRun run = new VirtualRun(costs, cell.maxNumBatchedTokens());
        VirtualStore store = new VirtualStore(run.clock, Bandwidth.constant(cell.gbps()), cell.chunkBytes(), chunks);
        return run.firstToken(store, false, prompt(cell.numTokens(), MEASURED_SEED), cell::numOtherTokens);
    }

    /** Runs a cell whose bandwidth and compute are redrawn all the time. */
    public static Outcome measure(Fluctuation fluctuation, ComputeCosts costs, Map<ChunkKey, byte[][]> chunks) {
        VirtualRun run = new VirtualRun(costs, fluctuation.cell().maxNumBatchedTokens());
        VirtualStore store = new VirtualStore(
                run.clock, fluctuation.bandwidth(), fluctuation.cell().chunkBytes(), chunks);
        return run.firstToken(
                store,
                false,
                prompt(fluctuation.cell().numTokens(), MEASURED_SEED),
                () -> fluctuation.numOtherTokens(run.clock.getAsLong()));
    }

    /** Runs a cell without a store. */
    public static Outcome computeAlone(VirtualCell cell, ComputeCosts costs) {
        VirtualRun run = new VirtualRun(costs, cell.maxNumBatchedTokens());
        return run.firstToken(null, false, prompt(cell.numTokens(), MEASURED_SEED), cell::numOtherTokens);
    }

    private static int[] prompt(int numStoredTokens, long seed) {
        return new SplittableRandom(seed)
                .ints(numStoredTokens + 1L, VirtualBackend.FIRST_MEASURED_ID, VOCAB_SIZE)
                .toArray();
    }

    /**
     * Runs a stored prompt and short ones that arrive right behind it.
     *
     * @param loadingLast whether what is being loaded is computed after all others; else all in the order of arrival
     */
    public static MixedOutcome mixed(
            VirtualCell cell,
            ComputeCosts costs,
            Map<ChunkKey, byte[][]> chunks,
            List<Integer> shortTokens,
            boolean loadingLast) {
        VirtualRun run = new VirtualRun(costs, cell.maxNumBatchedTokens());
        VirtualStore store = new VirtualStore(run.clock, Bandwidth.constant(cell.gbps()), cell.chunkBytes(), chunks);
        return run.storedThenShort(store, loadingLast, prompt(cell.numTokens(), MEASURED_SEED), shortTokens);
    }

    private MixedOutcome storedThenShort(
            PrefixStore store, boolean loadingLast, int[] stored, List<Integer> shortTokens) {
        TierConfig tier = loadingLast ? tier(false) : tier(false).inOrderOfService();
        VirtualBackend backend = new VirtualBackend(clock, costs, NUM_BLOCKS, BLOCK_SIZE);
        try (InferenceEngine engine = InferenceEngine.over(config().withTier(tier), MODEL, backend, store, clock)) {
            serve(engine, backend, "warm-up", prompt(WARM_UP_TOKENS, WARM_UP_SEED), () -> 0);
            drain(engine);
            long start = clock.getAsLong();
            engine.submit(new Request(MEASURED, stored, firstTokenOnly()));
            shortTokens.forEach(numTokens -> engine.submit(other(numTokens, 0)));
            double storedSeconds = 0;
            double allSeconds = 0;
            do {
                clock.advance(0);
                SampleDelta first = step(engine, MEASURED);
                allSeconds = (clock.getAsLong() - start) / 1e9;
                storedSeconds = first == null ? storedSeconds : allSeconds;
            } while (!engine.isIdle());
            return new MixedOutcome(allSeconds, storedSeconds);
        }
    }

    private Outcome firstToken(PrefixStore store, boolean storeFirstUse, int[] prompt, IntSupplier numOtherTokens) {
        VirtualBackend backend = new VirtualBackend(clock, costs, NUM_BLOCKS, BLOCK_SIZE);
        EngineConfig config = config().withTier(store == null ? null : tier(storeFirstUse));
        try (InferenceEngine engine = InferenceEngine.over(config, MODEL, backend, store, clock)) {
            // A stored prompt of its own teaches the engine what steps and loads take: it is not only just started.
            serve(engine, backend, "warm-up", prompt(WARM_UP_TOKENS, WARM_UP_SEED), numOtherTokens);
            drain(engine);
            long start = clock.getAsLong();
            long stepsBefore = engine.stats().numSteps();
            long othersBefore = backend.numOtherTokens();
            SampleDelta first = serve(engine, backend, MEASURED, prompt, numOtherTokens);
            double seconds = (clock.getAsLong() - start) / 1e9;
            long numSteps = engine.stats().numSteps() - stepsBefore;
            long numOthers = backend.numOtherTokens() - othersBefore;
            if (backend.measuredHash() != VirtualBackend.hashOf(prompt)) {
                throw new IllegalStateException(
                        "the first token was drawn from KV of another prefix than the prompt's");
            }
            drain(engine);
            return new Outcome(start, seconds, first.finished().numTierTokens(), numSteps, numOthers);
        }
    }

    private static TierConfig tier(boolean storeFirstUse) {
        return new TierConfig(
                KvFormat.AS_COMPUTED, VirtualCell.CHUNK_TOKENS, storeFirstUse, BUFFER_BYTES, LOAD_TIMEOUT_MILLIS);
    }

    private SampleDelta serve(
            InferenceEngine engine, VirtualBackend backend, String id, int[] prompt, IntSupplier numOtherTokens) {
        long numSubmitted = backend.numOtherTokens();
        engine.submit(new Request(id, prompt, firstTokenOnly()));
        SampleDelta first = null;
        while (first == null) {
            clock.advance(0);
            // A step may leave some of the others' tokens to the next one, which then has the fewer new ones.
            long others = numOtherTokens.getAsInt() - (numSubmitted - backend.numOtherTokens());
            if (others > 0) {
                engine.submit(other((int) others, -1));
                numSubmitted += others;
            }
            first = step(engine, id);
        }
        return first;
    }

    private void drain(InferenceEngine engine) {
        do {
            step(engine, ""); // once more when idle: what is stored behind
        } while (!engine.isIdle());
    }

    /** One step, or the wait for what is to come; what it brought of a request, or null. */
    private SampleDelta step(InferenceEngine engine, String id) {
        StepReport report = engine.step();
        if (report == null) {
            await(engine);
            return null;
        }
        if (!report.failures().isEmpty()) {
            throw new IllegalStateException("the engine refused a bench's request: "
                    + report.failures().get(0).message());
        }
        for (SampleDelta delta : report.deltas()) {
            if (delta.requestId().equals(id)) {
                return delta;
            }
        }
        return null;
    }

    private void await(InferenceEngine engine) {
        if (engine.isIdle()) {
            return;
        }
        long wake = engine.wakeNanos();
        if (wake != Long.MAX_VALUE) {
            clock.schedule(wake, () -> {});
        }
        if (!clock.advanceToNext()) {
            throw new IllegalStateException("the engine waits for a store that has nothing left to answer");
        }
    }

    private EngineConfig config() {
        return new EngineConfig(
                "virtual",
                "virtual",
                Dtype.AUTO,
                0,
                MAX_NUM_SEQS,
                maxNumBatchedTokens,
                1L << 30,
                true,
                BLOCK_SIZE,
                1,
                LogprobsMode.RAW_LOGPROBS);
    }

    private Request other(int numTokens, int priority) {
        int[] prompt = random.ints(numTokens, FIRST_OTHER_ID, VirtualBackend.FIRST_MEASURED_ID)
                .toArray();
        return new Request("other-" + numOthers++, prompt, firstTokenOnly(), priority, "", List.of(), false);
    }

    private static SamplingParams firstTokenOnly() {
        return SamplingParams.builder()
                .temperature(0)
                .maxTokens(1)
                .ignoreEos(true)
                .build();
    }
}
