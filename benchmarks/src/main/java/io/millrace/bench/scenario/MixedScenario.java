package io.millrace.bench.scenario;

import io.millrace.bench.model.BenchModel;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.Request;
import io.millrace.plan.ModelShape;
import java.util.ArrayList;
import java.util.List;

/**
 * Continuous against static batching on outputs of 16 to 256 tokens. Steps are counted at 64 slots, throughput is measured at
 * 8: the same engine serves both ways, statically by giving every request of a group the group's longest length, of which
 * only the request's own tokens count.
 */
public final class MixedScenario implements Scenario {
    private static final int MIN_NEW_TOKENS = 16;
    private static final int MAX_NEW_TOKENS = 256;
    private static final int PROMPT_TOKENS = 16;
    private static final int NUM_COUNTED_SLOTS = 64;
    private static final int NUM_COUNTED_REQUESTS = 1024;
    private static final int NUM_TIMED_SLOTS = 8;
    private static final double MAX_WARM_UP_SECONDS = 6;

    /** The schedule depends on lengths alone, so steps are counted on as small a model as there can be. */
    private static final ModelShape COUNTING_SHAPE =
            new ModelShape("bench-counting", 512, 64, 1, 2, 1, 32, 64, true, 128, 4096);

    @Override
    public Report run(BenchSettings settings) {
        int numRequests = settings.pick(48, 96);
        int numRounds = settings.pick(1, 3);
        Report report = Machine.newReport("mixed", settings)
                .config("new_tokens", MIN_NEW_TOKENS + " to " + MAX_NEW_TOKENS + ", uniform")
                .config("prompt_tokens", PROMPT_TOKENS)
                .config("counted_requests", NUM_COUNTED_REQUESTS)
                .config("counted_on", COUNTING_SHAPE.name() + " (the schedule depends on lengths alone)")
                .config("timed_requests", numRequests)
                .config("rounds", numRounds);
        Table steps = report.table("steps", "slots", "requests", "static_steps", "continuous_steps", "ratio");
        double stepRatio = countSteps(settings, steps);
        Table timed = report.table(
                "throughput",
                "slots",
                "requests",
                "useful_tokens",
                "static_tokens_per_s",
                "continuous_tokens_per_s",
                "ratio");
        double throughputRatio = time(settings, numRequests, numRounds, timed);
        report.check("continuous over static, 64 slots: steps", stepRatio, Op.AT_LEAST, 1.6);
        report.check("continuous over static, 8 slots: throughput", throughputRatio, Op.AT_LEAST, 1.4);
        return report;
    }

    private static List<Integer> lengths(Workload workload, int count) {
        List<Integer> lengths = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            lengths.add(workload.length(MIN_NEW_TOKENS, MAX_NEW_TOKENS));
        }
        return lengths;
    }

    private static double countSteps(BenchSettings settings, Table table) {
        settings.say("mixed, counting steps");
        BenchModel counting = BenchModel.random(COUNTING_SHAPE, settings.home().resolveSibling("bench-models"));
        BenchSettings small = settings.withModel(counting);
        Workload workload = new Workload(COUNTING_SHAPE.vocabSize(), settings.seed());
        List<Integer> lengths = lengths(workload, NUM_COUNTED_REQUESTS);
        long numKvTokens = (long) NUM_COUNTED_SLOTS * (PROMPT_TOKENS + MAX_NEW_TOKENS + 32);
        EngineSession.Options options = EngineSession.Options.of(NUM_COUNTED_SLOTS, numKvTokens);
        try (EngineSession session = new EngineSession(small, options)) {
            session.runToEnd(lengths.stream()
                    .map(length -> workload.request(PROMPT_TOKENS, length))
                    .toList());
            long continuous = session.stats().numSteps();
            long batches = StaticBatching.numSteps(lengths, NUM_COUNTED_SLOTS);
            double ratio = batches / (double) continuous;
            table.add(NUM_COUNTED_SLOTS, NUM_COUNTED_REQUESTS, batches, continuous, ratio);
            return ratio;
        }
    }

    private static double time(BenchSettings settings, int numRequests, int numRounds, Table table) {
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        List<Integer> lengths = lengths(workload, numRequests);
        long usefulTokens = lengths.stream().mapToLong(Integer::longValue).sum();
        long numKvTokens = (long) NUM_TIMED_SLOTS * (PROMPT_TOKENS + 1024 + 32);
        Samples continuousSeconds = new Samples();
        Samples staticSeconds = new Samples();
        Samples ratios = new Samples();
        try (EngineSession session =
                new EngineSession(settings, EngineSession.Options.of(NUM_TIMED_SLOTS, numKvTokens))) {
            session.warmUp(workload, NUM_TIMED_SLOTS, PROMPT_TOKENS, MAX_WARM_UP_SECONDS);
            for (int round = 0; round < numRounds; round++) {
                settings.say("mixed, round %d of %d", round + 1, numRounds);
                double continuous = session.runToEnd(lengths.stream()
                        .map(length -> workload.request(PROMPT_TOKENS, length))
                        .toList());
                double groups = 0;
                for (List<Integer> group : StaticBatching.groups(lengths, NUM_TIMED_SLOTS)) {
                    groups += session.runToEnd(requests(workload, group.size(), StaticBatching.longest(group)));
                }
                continuousSeconds.add(continuous);
                staticSeconds.add(groups);
                ratios.add(groups / continuous);
            }
        }
        table.add(
                NUM_TIMED_SLOTS,
                numRequests,
                usefulTokens,
                usefulTokens / staticSeconds.median(),
                usefulTokens / continuousSeconds.median(),
                ratios.median());
        return ratios.median();
    }

    private static List<Request> requests(Workload workload, int count, int numNewTokens) {
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            requests.add(workload.request(PROMPT_TOKENS, numNewTokens));
        }
        return requests;
    }
}
