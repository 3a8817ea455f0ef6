package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Plot;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.EngineConfig;
import java.nio.file.Path;
import java.time.Duration;

/**
 * The whole Flink job against the bare engine: the same text prompts, tokenised on both sides, served in alternating blocks in
 * one process, compared over the steady window of each block. The job takes checkpoints to disk all the while.
 */
public final class FlinkScenario implements Scenario {
    private static final int PROMPT_CHARACTERS = 32;
    private static final int MIN_PAIRS = 5;
    private static final int NUM_WARM_UPS = 2;

    /**
     * The job's own code runs by the request, and would be compiled over the first thousands: minutes of blocks, which a job
     * of hours has behind it. So some jobs with many short requests come first.
     */
    private static final int NUM_JOB_WARM_UPS = 2;

    private static final int SHORT_CHARACTERS = 8;
    private static final int MAX_SHORT_TOKENS = 4;

    /** A window shorter than this share of what was aimed at is too short to tell a rate from. */
    private static final double MIN_WINDOW_SHARE = 0.5;

    /** A pair whose blocks found machines further apart than this compares machines. */
    private static final double MAX_MACHINE_CHANGE = 0.03;

    private static final int NUM_MACHINE_PROBES = 11;

    /** How much is served. */
    private record Size(
            int numSlots,
            double windowSeconds,
            int meanNewTokens,
            int numPairs,
            int numShortRequests,
            Duration checkpointInterval) {
        static Size of(BenchSettings settings) {
            return new Size(
                    settings.pick(16, 64),
                    settings.pick(3, 12),
                    settings.pick(32, 64),
                    settings.pick(5, 10),
                    settings.pick(1500, 3000),
                    // Short blocks would end before a checkpoint began; more of them are only harder on the job.
                    Duration.ofSeconds(settings.pick(2, 10)));
        }

        /** Requests whose steady window lasts long enough: ramp and tail take a slot's worth each. */
        int numRequests(double requestsPerSecond) {
            return 2 * numSlots + 1 + (int) Math.ceil(windowSeconds * requestsPerSecond);
        }

        ServedRequests requests(String name, int count, long seed) {
            return new ServedRequests(name, count, PROMPT_CHARACTERS, meanNewTokens / 2, meanNewTokens * 3 / 2, seed);
        }
    }

    @Override
    public Report run(BenchSettings settings) throws InterruptedException {
        Size size = Size.of(settings);
        Report report = Machine.newReport("flink", settings)
                .config("slots", size.numSlots())
                .config("prompt_characters", PROMPT_CHARACTERS)
                .config("new_tokens", size.meanNewTokens() / 2 + " to " + size.meanNewTokens() * 3 / 2 + ", uniform")
                .config("pairs_aimed_at", size.numPairs())
                .config("window_s_aimed_at", size.windowSeconds())
                .config("checkpoint_interval_s", size.checkpointInterval().toSeconds());
        long numKvTokens = (long) size.numSlots() * (4 * PROMPT_CHARACTERS + 2L * size.meanNewTokens());
        EngineConfig config = EngineSession.config(settings, EngineSession.Options.of(size.numSlots(), numKvTokens));
        Path state = settings.home().resolve("flink-" + ProcessHandle.current().pid());
        try (BareEngine engine = new BareEngine(config);
                ServingJob job = new ServingJob(config, state, size.checkpointInterval());
                Ceilings ceilings =
                        new Ceilings(settings.model().shape(), settings.bfloat16(), settings.numCeilingThreads())) {
            new Blocks(settings, size, engine, job, ceilings, report).run();
        }
        return report;
    }

    /** The two sides in turns. One thread. */
    private static final class Blocks {
        private final BenchSettings settings;
        private final Size size;
        private final BareEngine engine;
        private final ServingJob job;
        private final Ceilings ceilings;
        private final Report report;
        private final Table table;
        private final Samples ratios = new Samples();
        private int numCheckpoints;
        private int numRequests;
        private double machineMillis;

        Blocks(BenchSettings settings, Size size, BareEngine engine, ServingJob job, Ceilings ceilings, Report report) {
            this.settings = settings;
            this.size = size;
            this.engine = engine;
            this.job = job;
            this.ceilings = ceilings;
            this.report = report;
            this.table = report.table(
                    "flink",
                    "pair",
                    "requests",
                    "job_tokens_per_s",
                    "engine_tokens_per_s",
                    "ratio",
                    "job_compute_cores",
                    "engine_compute_cores",
                    "job_machine_ms",
                    "engine_machine_ms",
                    "job_window_s",
                    "engine_window_s",
                    "job_checkpoints",
                    "counted");
        }

        void run() throws InterruptedException {
            warmUp();
            machineMillis = machineMillis();
            for (int pair = 1; ratios.count() < size.numPairs() && pair <= size.numPairs() * 3 / 2; pair++) {
                settings.say("flink, pair %d; %d of %d count", pair, ratios.count(), size.numPairs());
                runPair(pair);
            }
            report.config("checkpoints_completed", numCheckpoints);
            boolean measured = ratios.count() >= MIN_PAIRS && numCheckpoints > 0;
            report.check(
                    "Flink job over bare engine, steady window, checkpoints to disk",
                    measured ? Double.valueOf(ratios.median()) : null,
                    Op.AT_LEAST,
                    0.97);
            report.plot(
                    Plot.of("Tokens per second by block", table, "pair", "job_tokens_per_s", "engine_tokens_per_s"));
        }

        private void warmUp() throws InterruptedException {
            settings.say("flink, warming up");
            numRequests = size.numRequests(0);
            for (int i = 0; i < NUM_WARM_UPS; i++) {
                ServedRequests requests = size.requests("warm-up-" + i, numRequests, i);
                long start = System.nanoTime();
                engine.serve(requests, size.numSlots());
                numRequests = size.numRequests(numRequests * 1e9 / (System.nanoTime() - start));
                job.serve(requests, size.numSlots());
            }
            for (int i = 0; i < NUM_JOB_WARM_UPS; i++) {
                ServedRequests requests = new ServedRequests(
                        "job-warm-up-" + i, size.numShortRequests(), SHORT_CHARACTERS, 1, MAX_SHORT_TOKENS, i);
                job.serve(requests, size.numSlots());
            }
        }

        private void runPair(int pair) throws InterruptedException {
            ServedRequests requests = size.requests("block-" + pair, numRequests, settings.seed() + pair);
            boolean jobFirst = pair % 2 == 1;
            double before = machineMillis;
            ServingJob.Served served = jobFirst ? job.serve(requests, size.numSlots()) : null;
            SteadyWindow bare = jobFirst ? null : engine.serve(requests, size.numSlots());
            double between = machineMillis();
            served = jobFirst ? served : job.serve(requests, size.numSlots());
            bare = jobFirst ? engine.serve(requests, size.numSlots()) : bare;
            machineMillis = machineMillis();
            double firstMillis = (before + between) / 2;
            double secondMillis = (between + machineMillis) / 2;
            double ratio = served.window().tokensPerSecond() / bare.tokensPerSecond();
            double shorter = Math.min(served.window().seconds(), bare.seconds());
            boolean counted = Double.isFinite(ratio)
                    && shorter >= MIN_WINDOW_SHARE * size.windowSeconds()
                    && Math.abs(firstMillis / secondMillis - 1) <= MAX_MACHINE_CHANGE;
            if (counted) {
                ratios.add(ratio);
            }
            numCheckpoints += served.numCheckpoints();
            table.add(
                    pair,
                    requests.count(),
                    served.window().tokensPerSecond(),
                    bare.tokensPerSecond(),
                    ratio,
                    served.window().computeCores(),
                    bare.computeCores(),
                    jobFirst ? firstMillis : secondMillis,
                    jobFirst ? secondMillis : firstMillis,
                    served.window().seconds(),
                    bare.seconds(),
                    served.numCheckpoints(),
                    counted);
            adapt(bare);
        }

        private void adapt(SteadyWindow bare) {
            if (Double.isFinite(bare.tokensPerSecond())) {
                numRequests = size.numRequests(bare.tokensPerSecond() / size.meanNewTokens());
            }
        }

        /** What the products of a full decode step take now, alone: neighbours of a virtual machine come and go. */
        private double machineMillis() {
            Samples millis = new Samples();
            for (int i = 0; i < NUM_MACHINE_PROBES; i++) {
                millis.add(ceilings.gemms(size.numSlots(), size.numSlots()).seconds() * 1e3);
            }
            return millis.median();
        }
    }
}
