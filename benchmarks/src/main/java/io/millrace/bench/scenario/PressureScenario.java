package io.millrace.bench.scenario;

import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.engine.EngineStats;
import io.millrace.engine.Request;
import io.millrace.engine.StepReport.SampleDelta;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A KV pool a third of what all requests together want, against one that holds them all: the same tokens, at what price. */
public final class PressureScenario implements Scenario {
    private static final int PROMPT_TOKENS = 64;
    private static final double MAX_WARM_UP_SECONDS = 6;

    @Override
    public Report run(BenchSettings settings) {
        int numRequests = settings.pick(32, 64);
        int newTokens = settings.pick(192, 384);
        int numRounds = settings.pick(1, 3);
        long blocksPerSequence = (PROMPT_TOKENS + newTokens + EngineSession.BLOCK_SIZE - 1) / EngineSession.BLOCK_SIZE;
        long wantedTokens = numRequests * blocksPerSequence * EngineSession.BLOCK_SIZE;
        Report report = Machine.newReport("pressure", settings)
                .config("requests", numRequests)
                .config("prompt_tokens", PROMPT_TOKENS)
                .config("new_tokens", newTokens)
                .config("kv_tokens_wanted", wantedTokens)
                .config("kv_tokens_given", wantedTokens / 3)
                .config("rounds", numRounds);
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        Samples ampleSeconds = new Samples();
        Samples pressedSeconds = new Samples();
        Samples ratios = new Samples();
        boolean equal = true;
        EngineStats stats;
        long amplePreemptions;
        try (EngineSession ample = new EngineSession(settings, EngineSession.Options.of(numRequests, wantedTokens));
                EngineSession pressed =
                        new EngineSession(settings, EngineSession.Options.of(numRequests, wantedTokens / 3))) {
            settings.say("pressure, warming up");
            ample.warmUp(workload, numRequests, PROMPT_TOKENS, MAX_WARM_UP_SECONDS);
            for (int round = 0; round < numRounds; round++) {
                settings.say("pressure, round %d of %d", round + 1, numRounds);
                List<Request> requests = new ArrayList<>();
                for (int i = 0; i < numRequests; i++) {
                    requests.add(workload.request(PROMPT_TOKENS, newTokens));
                }
                Map<String, List<Integer>> expected = new HashMap<>();
                Map<String, List<Integer>> actual = new HashMap<>();
                double without = run(ample, requests, expected);
                double with = run(pressed, requests, actual);
                equal &= expected.equals(actual);
                ampleSeconds.add(without);
                pressedSeconds.add(with);
                ratios.add(without / with);
            }
            stats = pressed.stats();
            amplePreemptions = ample.stats().numPreemptions() / numRounds;
        }
        double peak = stats.peakUsedBlocks() / (double) stats.numBlocks();
        long numTokens = (long) numRequests * newTokens;
        report.table(
                        "pressure",
                        "kv_pool",
                        "seconds",
                        "tokens_per_s",
                        "preemptions_per_round",
                        "peak_kv",
                        "tokens_equal")
                .add("whole", ampleSeconds.median(), numTokens / ampleSeconds.median(), amplePreemptions, null, null)
                .add(
                        "a third",
                        pressedSeconds.median(),
                        numTokens / pressedSeconds.median(),
                        stats.numPreemptions() / numRounds,
                        peak,
                        equal);
        report.check("pressure: preemptions", (double) stats.numPreemptions(), Op.GREATER, 0);
        report.check("pressure: peak KV use", peak, Op.AT_LEAST, 0.95);
        report.check("pressure: outputs equal to the unpressed run's (1 = all)", equal ? 1.0 : 0.0, Op.EQUAL, 1);
        report.check("pressure: throughput over the unpressed run's", ratios.median(), Op.AT_LEAST, 0.6);
        return report;
    }

    private static double run(EngineSession session, List<Request> requests, Map<String, List<Integer>> outputs) {
        return session.runToEnd(requests, report -> {
            for (SampleDelta delta : report.deltas()) {
                List<Integer> ids = outputs.computeIfAbsent(delta.requestId(), id -> new ArrayList<>());
                for (int id : delta.tokenIds()) {
                    ids.add(id);
                }
            }
        });
    }
}
