package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.ceiling.GemmCeiling;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Plot;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.engine.EngineConfig;
import io.millrace.plan.ModelShape;
import java.util.List;

/**
 * One prompt at a time, computed in one step, against its products alone plus causal attention's operations at the float32
 * rate. Engine and ceilings take turns.
 */
public final class PrefillScenario implements Scenario {
    /** Longer prompts are computed in several steps. */
    public static final int MAX_PROMPT_TOKENS = EngineConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS;

    private static final int CHECKED_TOKENS = 1024;
    private static final double MAX_WARM_UP_SECONDS = 6;

    private final List<Integer> lengths; // null for the default

    /** @param lengths in tokens, null for the default ones */
    public PrefillScenario(List<Integer> lengths) {
        this.lengths = lengths;
    }

    @Override
    public Report run(BenchSettings settings) {
        List<Integer> tokens = lengths != null
                ? lengths
                : settings.full() ? List.of(64, 128, 256, 512, 1024, 2048) : List.of(128, 1024);
        int numRounds = settings.pick(5, 15);
        Report report = Machine.newReport("prefill", settings)
                .config("prompt_tokens", tokens)
                .config("rounds", numRounds);
        Table table = report.table(
                "prefill",
                "prompt_tokens",
                "prefill_ms",
                "tokens_per_s",
                "gemm_ceiling_ms",
                "attention_ceiling_ms",
                "over_gemms_and_attention",
                "gemms",
                "gemm_gflops",
                "float32_gflops");
        Double checked = null;
        Workload workload = new Workload(settings.model().shape().vocabSize(), settings.seed());
        int longest = tokens.stream().max(Integer::compare).orElseThrow();
        try (Ceilings ceilings =
                        new Ceilings(settings.model().shape(), settings.bfloat16(), settings.numCeilingThreads());
                EngineSession session = new EngineSession(settings, EngineSession.Options.of(1, longest + 64))) {
            for (int length : tokens) {
                settings.say("prefill, %d tokens", length);
                double ratio = measure(settings, session, workload, ceilings, length, numRounds, table);
                checked = length == CHECKED_TOKENS ? Double.valueOf(ratio) : checked;
            }
        }
        report.check(
                "prefill, 1,024-token prompts: time over (GEMMs alone + attention FLOPs / float32 rate)",
                checked,
                Op.AT_MOST,
                1.3);
        report.plot(
                Plot.of("Prefill time (ms) by prompt tokens", table, "prompt_tokens", "prefill_ms", "gemm_ceiling_ms"));
        report.plot(Plot.of("Prompt tokens per second", table, "prompt_tokens", "tokens_per_s"));
        return report;
    }

    private static double measure(
            BenchSettings settings,
            EngineSession session,
            Workload workload,
            Ceilings ceilings,
            int length,
            int numRounds,
            Table table) {
        WarmUp.untilStable(MAX_WARM_UP_SECONDS, () -> prefill(session, workload, length));
        GemmCeiling gemms = ceilings.gemms(length, 1);
        double flops = attentionFlops(settings.model().shape(), length);
        ceilings.float32Rate().flopsPerSecond();
        Samples seconds = new Samples();
        Samples gemmSeconds = new Samples();
        Samples rates = new Samples();
        Samples ratios = new Samples();
        for (int round = 0; round < numRounds; round++) {
            double engine = prefill(session, workload, length);
            double products = gemms.seconds();
            double rate = ceilings.float32Rate().flopsPerSecond();
            seconds.add(engine);
            gemmSeconds.add(products);
            rates.add(rate);
            ratios.add(engine / (products + flops / rate));
        }
        table.add(
                length,
                seconds.median() * 1e3,
                length / seconds.median(),
                gemmSeconds.median() * 1e3,
                flops / rates.median() * 1e3,
                ratios.median(),
                gemms.describe(),
                gemms.flops() / gemmSeconds.median() / 1e9,
                rates.median() / 1e9);
        return ratios.median();
    }

    /** Seconds to compute one prompt and draw its first token. */
    static double prefill(EngineSession session, Workload workload, int length) {
        return session.runToEnd(List.of(workload.request(length, 1)));
    }

    /**
     * Causal attention: every token with itself and all before it, in the last layer only the last token; 2 operations a
     * multiply-add, scores and values.
     */
    static double attentionFlops(ModelShape shape, long length) {
        double pairs = (shape.numLayers() - 1) * (length * (length + 1) / 2.0) + length;
        return 4.0 * shape.numQueryHeads() * shape.headDim() * pairs;
    }
}
