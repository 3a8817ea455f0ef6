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

    /** The median of fewer ratios, each a few percent off, says nothing about a loss of 3 %. */
    private static final int MIN_PAIRS = 5;

    /** A window shorter than this share of what was aimed at is too short to tell a rate from. */
    private static final double MIN_WINDOW_SHARE = 0.5;

    /** A pair whose blocks found machines further apart than this compares machines. */
    private static final double MAX_MACHINE_CHANGE = 0.03;

    /**
     * How much is served.
     *
     * @param numPairs that are to count
     * @param maxNumPairs with those run in place of pairs that do not count
     * @param numWarmUps turns of both sides, as long as a block, that come first; where there are none, short jobs alone
     *     compile the engine's code, which is the same on both sides
     * @param numShortJobs jobs with many short requests that come first. The job's own code runs by the request, and would be
     *     compiled over the first thousands: minutes of blocks, which a job of hours has behind it
     * @param numShortRequests of such a job
     * @param shortCharacters of their prompts
     * @param maxShortTokens of their outputs
     * @param numMachineProbes that take half a second together: for a tenth, threads of the block before may still run
     */
    private record Size(
            int numSlots,
            double windowSeconds,
            int meanNewTokens,
            int numPairs,
            int maxNumPairs,
            int numWarmUps,
            int numShortJobs,
            int numShortRequests,
            int shortCharacters,
            int maxShortTokens,
            int numMachineProbes,
            Duration checkpointInterval) {
        static Size of(BenchSettings settings) {
            return new Size(
                    settings.pick(16, 64),
                    settings.full() ? 12 : 2.5,
                    settings.pick(32, 64),
                    settings.pick(2, 10),
                    settings.pick(2, 15),
                    settings.pick(0, 2),
                    settings.pick(1, 2),
                    settings.pick(1500, 3000),
                    settings.pick(2, 8),
                    settings.pick(2, 4),
                    settings.pick(33, 11),
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

    /** Holds the ratios of the pairs that count against the limit, where they and the checkpoints are enough for that. */
    static void check(Report report, int numPairsAimedAt, Samples ratios, int numCheckpoints) {
        boolean measured = ratios.count() >= MIN_PAIRS && numCheckpoints > 0;
        report.check(
                "Flink job over bare engine, steady window, checkpoints to disk"
                        + (numPairsAimedAt < MIN_PAIRS ? " (so many pairs: --full)" : ""),
                measured ? Double.valueOf(ratios.median()) : null,
                Op.AT_LEAST,
                0.97);
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
            for (int pair = 1; ratios.count() < size.numPairs() && pair <= size.maxNumPairs(); pair++) {
                settings.say("flink, pair %d; %d of %d count", pair, ratios.count(), size.numPairs());
                runPair(pair);
            }
            report.config("checkpoints_completed", numCheckpoints);
            check(report, size.numPairs(), ratios, numCheckpoints);
            report.plot(
                    Plot.of("Tokens per second by block", table, "pair", "job_tokens_per_s", "engine_tokens_per_s"));
        }

        private void warmUp() throws InterruptedException {
            settings.say("flink, warming up");
            numRequests = size.numRequests(0);
            for (int i = 0; i < size.numWarmUps(); i++) {
                ServedRequests requests = size.requests("warm-up-" + i, numRequests, i);
                long start = System.nanoTime();
                engine.serve(requests, size.numSlots());
                numRequests = size.numRequests(numRequests * 1e9 / (System.nanoTime() - start));
                job.serve(requests, size.numSlots());
            }
            for (int i = 0; i < size.numShortJobs(); i++) {
                ServedRequests requests = new ServedRequests(
                        "job-warm-up-" + i,
                        size.numShortRequests(),
                        size.shortCharacters(),
                        1,
                        size.maxShortTokens(),
                        i);
                job.serve(requests, size.numSlots());
            }
            if (size.numWarmUps() == 0) { // how fast the engine is, blocks still have to be told
                numRequests = 4 * size.numSlots();
                adapt(engine.serve(size.requests("rate", numRequests, 0), size.numSlots()));
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
            for (int i = 0; i < size.numMachineProbes(); i++) {
                millis.add(ceilings.gemms(size.numSlots(), size.numSlots()).seconds() * 1e3);
            }
            return millis.median();
        }
    }
}
