package io.millrace.bench.scenario;

import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.Request;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Requests from submission to the last token, prefill included: the shape in which other engines report. */
public final class ThroughputScenario implements Scenario {
    private static final int MAX_WARM_UP_SECONDS = 15;
    private static final int FULL_MAX_WARM_UP_SECONDS = 60;

    private final Sizes sizes;
    private final Integer rounds; // null for the default

    /**
     * How much.
     *
     * @param numRequests submitted together
     * @param promptTokens of each
     * @param newTokens of each sample; 1 measures prefill
     * @param numSamples of each request
     * @param temperature 0 is greedy
     * @param topP 1 is off
     */
    public record Sizes(
            int numRequests, int promptTokens, int newTokens, int numSamples, float temperature, float topP) {
        int numSequences() {
            return numRequests * numSamples;
        }

        long numNewTokens() {
            return (long) numSequences() * newTokens;
        }
    }

    /** @param rounds measured ones, null for the default */
    public ThroughputScenario(Sizes sizes, Integer rounds) {
        this.sizes = sizes;
        this.rounds = rounds;
    }

    @Override
    public Report run(BenchSettings settings) {
        int numRounds = rounds != null ? rounds : settings.pick(1, 5);
        Report report = Machine.newReport("throughput", settings)
                .config("requests", sizes.numRequests())
                .config("prompt_tokens", sizes.promptTokens())
                .config("new_tokens", sizes.newTokens())
                .config("samples", sizes.numSamples())
                .config("temperature", sizes.temperature())
                .config("top_p", sizes.topP())
                .config("rounds", numRounds);
        Workload workload =
                new Workload(settings.model().shape().vocabSize(), settings.seed(), sizes.temperature(), sizes.topP());
        long numKvTokens = (long) sizes.numRequests() * (sizes.promptTokens() + EngineSession.BLOCK_SIZE)
                + (long) sizes.numSequences() * (sizes.newTokens() + 2L * EngineSession.BLOCK_SIZE);
        Samples seconds = new Samples();
        Samples firstTokensSeconds = new Samples();
        Samples decodeRates = new Samples();
        try (EngineSession session =
                new EngineSession(settings, EngineSession.Options.of(sizes.numSequences(), numKvTokens))) {
            settings.say("throughput, warming up");
            // Whole rounds: shorter ones leave the compilers work that the first measured round would pay for.
            WarmUp.untilStable(
                    settings.pick(MAX_WARM_UP_SECONDS, FULL_MAX_WARM_UP_SECONDS),
                    () -> session.runToEnd(requests(workload, sizes.newTokens())));
            for (int round = 0; round < numRounds; round++) {
                settings.say("throughput, round %d of %d", round + 1, numRounds);
                round(session, workload, seconds, firstTokensSeconds, decodeRates);
            }
        }
        Table table = report.table(
                "throughput",
                "new_tokens_per_round",
                "seconds",
                "new_tokens_per_s",
                "prompt_tokens_per_s",
                "all_first_tokens_s",
                "decode_tokens_per_s");
        table.add(
                sizes.numNewTokens(),
                seconds.median(),
                sizes.numNewTokens() / seconds.median(),
                (double) sizes.numRequests() * sizes.promptTokens() / seconds.median(),
                firstTokensSeconds.median(),
                decodeRates.median());
        return report;
    }

    private List<Request> requests(Workload workload, int newTokens) {
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < sizes.numRequests(); i++) {
            requests.add(workload.request(workload.prompt(sizes.promptTokens()), newTokens, sizes.numSamples()));
        }
        return requests;
    }

    private void round(
            EngineSession session, Workload workload, Samples seconds, Samples firstTokens, Samples decodeRates) {
        List<Request> requests = requests(workload, sizes.newTokens());
        Set<String> begun = new HashSet<>();
        long[] allBegun = {0, 0}; // when, and tokens drawn until then
        long drawnBefore = session.stats().numGeneratedTokens();
        long start = System.nanoTime();
        seconds.add(session.runToEnd(requests, report -> {
            if (begun.size() < sizes.numSequences()) {
                report.deltas().forEach(delta -> begun.add(delta.requestId() + "/" + delta.sample()));
                allBegun[0] = System.nanoTime();
                allBegun[1] = session.stats().numGeneratedTokens();
            }
        }));
        long end = System.nanoTime();
        long drawnAfter = session.stats().numGeneratedTokens();
        if (drawnAfter - drawnBefore != sizes.numNewTokens()) {
            throw new IllegalStateException("a round of " + sizes.numNewTokens() + " new tokens drew "
                    + (drawnAfter - drawnBefore) + "; its rate would be one of other work");
        }
        firstTokens.add((allBegun[0] - start) / 1e9);
        if (drawnAfter > allBegun[1] && allBegun[1] > drawnBefore) {
            decodeRates.add((drawnAfter - allBegun[1]) * 1e9 / (end - allBegun[0]));
        }
    }
}
