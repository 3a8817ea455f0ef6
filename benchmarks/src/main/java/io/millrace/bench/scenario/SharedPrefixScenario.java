package io.millrace.bench.scenario;

import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.EngineStats;
import io.millrace.engine.Request;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Many prompts under one system prompt, with the prefix cache and without, in turns. */
public final class SharedPrefixScenario implements Scenario {
    private static final int OWN_TOKENS = 32;
    private static final int NEW_TOKENS = 32;
    private static final double MAX_WARM_UP_SECONDS = 6;

    @Override
    public Report run(BenchSettings settings) {
        int numPrompts = settings.pick(16, 64);
        int sharedTokens = settings.pick(512, 1024);
        int numRounds = settings.pick(2, 5);
        Report report = Machine.newReport("shared-prefix", settings)
                .config("prompts", numPrompts)
                .config("shared_tokens", sharedTokens)
                .config("own_tokens", OWN_TOKENS)
                .config("new_tokens", NEW_TOKENS)
                .config("rounds", numRounds);
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        long numKvTokens = (long) numPrompts * (sharedTokens + OWN_TOKENS + NEW_TOKENS + EngineSession.BLOCK_SIZE);
        Side with = new Side();
        Side without = new Side();
        Samples ratios = new Samples();
        try (EngineSession caching =
                        new EngineSession(settings, new EngineSession.Options(numPrompts, numKvTokens, true, true));
                EngineSession plain =
                        new EngineSession(settings, new EngineSession.Options(numPrompts, numKvTokens, false, true))) {
            WarmUp.untilStable(MAX_WARM_UP_SECONDS, () -> PrefillScenario.prefill(plain, workload, sharedTokens));
            new Side().run(caching, requests(workload, numPrompts, sharedTokens));
            new Side().run(plain, requests(workload, numPrompts, sharedTokens));
            for (int round = 0; round < numRounds; round++) {
                settings.say("shared-prefix, round %d of %d", round + 1, numRounds);
                List<Request> requests = requests(workload, numPrompts, sharedTokens);
                double cached = with.run(caching, requests);
                ratios.add(without.run(plain, requests) / cached);
            }
        }
        Table table = report.table(
                "shared_prefix",
                "prefix_cache",
                "seconds",
                "prompt_tokens",
                "prompt_tokens_computed",
                "prompt_tokens_per_s",
                "kv_mb_read",
                "times_faster");
        long promptTokens = (long) numPrompts * (sharedTokens + OWN_TOKENS);
        with.addTo(table, "on", promptTokens, ratios.median());
        without.addTo(table, "off", promptTokens, 1);
        return report;
    }

    private static List<Request> requests(Workload workload, int numPrompts, int sharedTokens) {
        int[] shared = workload.prompt(sharedTokens);
        List<Request> requests = new ArrayList<>();
        for (int i = 0; i < numPrompts; i++) {
            int[] prompt = Arrays.copyOf(shared, sharedTokens + OWN_TOKENS);
            System.arraycopy(workload.prompt(OWN_TOKENS), 0, prompt, sharedTokens, OWN_TOKENS);
            requests.add(workload.request(prompt, NEW_TOKENS, 1));
        }
        return requests;
    }

    /** One of the two engines' figures. */
    private static final class Side {
        private final Samples seconds = new Samples();
        private long numComputedTokens;
        private long numKvBytesRead;

        double run(EngineSession session, List<Request> requests) {
            EngineStats before = session.stats();
            double took = session.runToEnd(requests);
            numComputedTokens = session.stats().numPromptTokens() - before.numPromptTokens();
            numKvBytesRead =
                    before.numKvBytesRead() < 0 ? -1 : session.stats().numKvBytesRead() - before.numKvBytesRead();
            seconds.add(took);
            return took;
        }

        void addTo(Table table, String cache, long promptTokens, double timesFaster) {
            table.add(
                    cache,
                    seconds.median(),
                    promptTokens,
                    numComputedTokens,
                    promptTokens / seconds.median(),
                    numKvBytesRead < 0 ? null : Double.valueOf(numKvBytesRead / 1e6),
                    timesFaster);
        }
    }
}
