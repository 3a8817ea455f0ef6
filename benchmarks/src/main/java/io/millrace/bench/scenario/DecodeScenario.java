package io.millrace.bench.scenario;

import io.millrace.backend.StepTimes;
import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.ceiling.GemmCeiling;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Plot;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.Request;
import java.util.ArrayList;
import java.util.List;

/**
 * Steady decode steps at several batch sizes around one context length, against the step's products alone plus its KV bytes
 * at read bandwidth. Engine and ceilings take turns; ratios are formed turn by turn and their median reported.
 */
public final class DecodeScenario implements Scenario {
    private static final double WARM_UP_SECONDS = 8;
    private static final double FULL_WARM_UP_SECONDS = 60;
    private static final int STEPS_PER_ROUND = 6;

    private final List<Integer> batchSizes; // null for the default
    private final int contextTokens;

    /** @param batchSizes null for the default ones */
    public DecodeScenario(List<Integer> batchSizes, int contextTokens) {
        this.batchSizes = batchSizes;
        this.contextTokens = contextTokens;
    }

    @Override
    public Report run(BenchSettings settings) {
        List<Integer> batches = batchSizes != null
                ? batchSizes
                : settings.full() ? List.of(1, 2, 4, 8, 16, 32, 64, 128, 256) : List.of(1, 16, 64);
        int numRounds = settings.pick(5, 15);
        Report report = Machine.newReport("decode", settings)
                .config("context_tokens", contextTokens)
                .config("batch_sizes", batches)
                .config("rounds", numRounds)
                .config("steps_per_round", STEPS_PER_ROUND);
        Table table = report.table(
                "decode",
                "batch",
                "step_ms",
                "tokens_per_s",
                "gemm_ceiling_ms",
                "kv_read_ms",
                "over_gemms_and_kv",
                "over_weights_and_kv",
                "gemm_share_of_ceiling",
                "engine_gemm_ms",
                "engine_attention_ms",
                "engine_sampling_ms",
                "engine_other_ms",
                "allocated_bytes_per_step");
        Table ceilingTable = report.table("ceilings", "batch", "gemms", "gemm_gflops", "read_gb_per_s");
        Double atBatch64 = null;
        Double atBatch1 = null;
        Double allocated = null;
        try (Ceilings ceilings =
                new Ceilings(settings.model().shape(), settings.bfloat16(), settings.numCeilingThreads())) {
            for (int batch : batches) {
                settings.say("decode, batch %d", batch);
                Point point = measure(settings, ceilings, batch, numRounds);
                point.addTo(table, ceilingTable);
                atBatch64 = batch == 64 ? Double.valueOf(point.overGemmsAndKv.median()) : atBatch64;
                allocated = batch == 64 ? Double.valueOf(point.allocatedBytes.median()) : allocated;
                atBatch1 = batch == 1 ? Double.valueOf(point.overWeightsAndKv.median()) : atBatch1;
            }
        }
        boolean asSpecified = contextTokens == 192;
        report.check(
                "decode, batch 64, context 192: step over (GEMMs alone + KV bytes / read bandwidth)",
                asSpecified ? atBatch64 : null,
                Op.AT_MOST,
                1.35);
        report.check(
                "decode, batch 1, context 192: step over (weight + KV bytes) / read bandwidth",
                asSpecified ? atBatch1 : null,
                Op.AT_MOST,
                1.5);
        report.check("Java bytes allocated per steady decode step at batch 64", allocated, Op.LESS, 64 * 1024);
        report.plot(Plot.of("Step time (ms) by batch", table, "batch", "step_ms", "gemm_ceiling_ms", "kv_read_ms"));
        report.plot(Plot.of("Tokens per second by batch", table, "batch", "tokens_per_s"));
        report.plot(Plot.of("Times the ceiling, by batch", table, "batch", "over_gemms_and_kv"));
        return report;
    }

    /** What was measured at one batch size. */
    private static final class Point {
        final int batch;
        final Samples stepSeconds = new Samples();
        final Samples gemmSeconds = new Samples();
        final Samples bytesPerSecond = new Samples();
        final Samples kvSeconds = new Samples();
        final Samples overGemmsAndKv = new Samples();
        final Samples overWeightsAndKv = new Samples();
        final Samples allocatedBytes = new Samples();
        StepTimes times = StepTimes.ZERO;
        int numSteps;
        String gemmWay;
        double gemmFlops;

        Point(int batch) {
            this.batch = batch;
        }

        void addTo(Table table, Table ceilings) {
            double milliseconds = 1e6 * numSteps;
            table.add(
                    batch,
                    stepSeconds.median() * 1e3,
                    batch / stepSeconds.median(),
                    gemmSeconds.median() * 1e3,
                    kvSeconds.median() * 1e3,
                    overGemmsAndKv.median(),
                    overWeightsAndKv.median(),
                    gemmSeconds.median() * numSteps * 1e9 / times.gemmNanos(),
                    times.gemmNanos() / milliseconds,
                    times.attentionNanos() / milliseconds,
                    times.samplingNanos() / milliseconds,
                    times.otherNanos() / milliseconds,
                    allocatedBytes.median());
            ceilings.add(batch, gemmWay, gemmFlops / gemmSeconds.median() / 1e9, bytesPerSecond.median() / 1e9);
        }
    }

    private Point measure(BenchSettings settings, Ceilings ceilings, int batch, int numRounds) {
        Point point = new Point(batch);
        int numSteps = (numRounds + 1) * STEPS_PER_ROUND;
        int promptTokens = Math.max(1, contextTokens - numSteps / 2);
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed() + batch);
        long numKvTokens = (long) batch * (Math.max(contextTokens, promptTokens) + numSteps + 1088);
        try (EngineSession session = new EngineSession(settings, EngineSession.Options.of(batch, numKvTokens))) {
            session.warmUp(
                    workload,
                    batch,
                    Math.min(promptTokens, 64),
                    settings.full() ? FULL_WARM_UP_SECONDS : WARM_UP_SECONDS);
            List<Request> requests = new ArrayList<>();
            for (int i = 0; i < batch; i++) {
                requests.add(workload.request(promptTokens, numSteps + 64));
            }
            requests.forEach(session::submit);
            session.prefill(batch);
            GemmCeiling gemms = ceilings.gemms(batch, batch);
            point.gemmWay = gemms.describe();
            point.gemmFlops = gemms.flops();
            turn(
                    settings,
                    session,
                    ceilings,
                    gemms,
                    new Point(batch)); // the first turn only warms what comes in between
            for (int round = 0; round < numRounds; round++) {
                turn(settings, session, ceilings, gemms, point);
            }
            session.cancel(requests);
        }
        return point;
    }

    private static void turn(
            BenchSettings settings, EngineSession session, Ceilings ceilings, GemmCeiling gemms, Point point) {
        Samples steps = new Samples();
        Allocation allocation = new Allocation();
        StepTimes timesBefore = session.stats().times();
        long kvTokens = session.stats().numUsedSlots();
        allocation.begin();
        for (int i = 0; i < STEPS_PER_ROUND; i++) {
            steps.add(session.timedStep());
        }
        point.allocatedBytes.add(allocation.end() / STEPS_PER_ROUND);
        kvTokens = (kvTokens + session.stats().numUsedSlots()) / 2;
        point.times = point.times.plus(difference(session.stats().times(), timesBefore));
        point.numSteps += STEPS_PER_ROUND;
        Samples products = new Samples();
        for (int i = 0; i < 3; i++) {
            products.add(gemms.seconds());
        }
        double bandwidth = ceilings.readBandwidth().bytesPerSecond();
        double kvBytes = (double) kvTokens * EngineSession.kvBytesPerToken(settings);
        point.stepSeconds.add(steps.median());
        point.gemmSeconds.add(products.median());
        point.bytesPerSecond.add(bandwidth);
        point.kvSeconds.add(kvBytes / bandwidth);
        point.overGemmsAndKv.add(steps.median() / (products.median() + kvBytes / bandwidth));
        point.overWeightsAndKv.add(steps.median() * bandwidth / (EngineSession.matrixBytes(settings) + kvBytes));
    }

    private static StepTimes difference(StepTimes after, StepTimes before) {
        return new StepTimes(
                after.totalNanos() - before.totalNanos(),
                after.gemmNanos() - before.gemmNanos(),
                after.attentionNanos() - before.attentionNanos(),
                after.samplingNanos() - before.samplingNanos());
    }
}
