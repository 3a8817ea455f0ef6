package io.millrace.bench.scenario;

import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Plot;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.EngineConfig;
import java.time.Duration;

/**
 * The whole Flink job against the bare engine: the same text prompts, tokenised on both sides, served in alternating blocks in
 * one process, compared over the steady window of each block. The job takes checkpoints to disk all the while.
 */
public final class FlinkScenario implements Scenario {
    private static final int PROMPT_CHARACTERS = 32;
    private static final int MIN_BLOCKS = 10;
    private static final int NUM_WARM_UPS = 3;

    /** A window shorter than this share of what was aimed at is too short to tell a rate from. */
    private static final double MIN_WINDOW_SHARE = 0.5;

    @Override
    public Report run(BenchSettings settings) throws InterruptedException {
        int numSlots = settings.pick(16, 64);
        double windowSeconds = settings.pick(2, 12);
        int meanNewTokens = settings.pick(32, 64);
        int numPairs = settings.pick(5, 10);
        // Short blocks would end before a checkpoint began; with more of them the comparison is only harder on the job.
        Duration checkpointInterval = Duration.ofSeconds(settings.pick(2, 10));
        Report report = Machine.newReport("flink", settings)
                .config("slots", numSlots)
                .config("prompt_characters", PROMPT_CHARACTERS)
                .config("new_tokens", meanNewTokens / 2 + " to " + meanNewTokens * 3 / 2 + ", uniform")
                .config("blocks", 2 * numPairs)
                .config("window_s_aimed_at", windowSeconds)
                .config("checkpoint_interval_s", checkpointInterval.toSeconds());
        Table table = report.table(
                "flink",
                "pair",
                "requests",
                "job_tokens_per_s",
                "engine_tokens_per_s",
                "ratio",
                "job_window_s",
                "engine_window_s",
                "job_checkpoints",
                "counted");
        long numKvTokens = (long) numSlots * (4 * PROMPT_CHARACTERS + 2L * meanNewTokens);
        EngineConfig config = EngineSession.config(settings, EngineSession.Options.of(numSlots, numKvTokens));
        Samples ratios = new Samples();
        int numCheckpoints = 0;
        try (BareEngine engine = new BareEngine(config);
                ServingJob job = new ServingJob(
                        config,
                        settings.home()
                                .resolve("flink-" + ProcessHandle.current().pid()),
                        checkpointInterval)) {
            settings.say("flink, warming up");
            int numRequests = 2 * numSlots + 1;
            for (int i = 0; i < NUM_WARM_UPS; i++) {
                ServedRequests warmUp = requests("warm-up-" + i, numRequests, meanNewTokens, i);
                double seconds = engine.servingSeconds(warmUp, numSlots);
                job.serve(warmUp, numSlots);
                numRequests = blockSize(numSlots, windowSeconds, numRequests / seconds);
            }
            for (int pair = 1; pair <= numPairs; pair++) {
                settings.say("flink, pair %d of %d", pair, numPairs);
                ServedRequests requests = requests("block-" + pair, numRequests, meanNewTokens, settings.seed() + pair);
                boolean jobFirst = pair % 2 == 1;
                ServingJob.Served served = jobFirst ? job.serve(requests, numSlots) : null;
                SteadyWindow bare = engine.serve(requests, numSlots);
                served = jobFirst ? served : job.serve(requests, numSlots);
                double ratio = served.window().tokensPerSecond() / bare.tokensPerSecond();
                double shorter = Math.min(served.window().seconds(), bare.seconds());
                boolean counted = Double.isFinite(ratio) && shorter >= MIN_WINDOW_SHARE * windowSeconds;
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
                        served.window().seconds(),
                        bare.seconds(),
                        served.numCheckpoints(),
                        counted);
                if (Double.isFinite(bare.tokensPerSecond())) {
                    numRequests = blockSize(numSlots, windowSeconds, bare.tokensPerSecond() / meanNewTokens);
                }
            }
        }
        boolean measured = 2 * ratios.count() >= MIN_BLOCKS && numCheckpoints > 0;
        report.config("checkpoints_completed", numCheckpoints);
        report.check(
                "Flink job over bare engine, steady window, checkpoints to disk",
                measured ? Double.valueOf(ratios.median()) : null,
                Op.AT_LEAST,
                0.97);
        report.plot(Plot.of("Tokens per second by block", table, "pair", "job_tokens_per_s", "engine_tokens_per_s"));
        return report;
    }

    /** Requests whose steady window lasts that long: ramp and tail take a slot's worth each. */
    private static int blockSize(int numSlots, double windowSeconds, double requestsPerSecond) {
        return 2 * numSlots + 1 + (int) Math.ceil(windowSeconds * requestsPerSecond);
    }

    private static ServedRequests requests(String name, int count, int meanNewTokens, long seed) {
        return new ServedRequests(name, count, PROMPT_CHARACTERS, meanNewTokens / 2, meanNewTokens * 3 / 2, seed);
    }
}
