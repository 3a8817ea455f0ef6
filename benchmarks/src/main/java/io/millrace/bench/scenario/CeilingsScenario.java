package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.AttentionCeiling;
import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.ceiling.GemmCeiling;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import java.util.List;
import java.util.stream.Stream;

/**
 * The machine's ceilings for a model, without the engine: what other engines' figures can be held against, too. Beside the
 * fastest products stand those that reproducible bits leave (docs/determinism.md): what the contract costs. Of a rollout all
 * that its step and its prompts must at least do is measured.
 */
public final class CeilingsScenario implements Scenario {
    /** Rows of a call that reproducible bits leave: fewer are padded, more are cut. */
    private static final int MIN_FIXED_ROWS = 4;

    private static final int MAX_FIXED_ROWS = 256;
    private static final int CHECKED_BATCH = 64;

    private final List<Integer> batchSizes;
    private final List<Integer> lengths;
    private final RolloutScenario.Sizes rollout;

    /**
     * @param batchSizes sequences of decode steps
     * @param lengths tokens of prompts
     * @param rollout whose step and prompts are among them, or are added
     */
    public CeilingsScenario(List<Integer> batchSizes, List<Integer> lengths, RolloutScenario.Sizes rollout) {
        this.batchSizes = with(batchSizes, rollout.numSequences());
        this.lengths = with(lengths, rollout.promptTokens());
        this.rollout = rollout;
    }

    private static List<Integer> with(List<Integer> numbers, int another) {
        return Stream.concat(numbers.stream(), Stream.of(another)).distinct().toList();
    }

    @Override
    public Report run(BenchSettings settings) {
        Report report = Machine.newReport("ceilings", settings)
                .config("batch_sizes", batchSizes)
                .config("prompt_tokens", lengths)
                .config("rollout", rollout.toString());
        try (Ceilings ceilings =
                new Ceilings(settings.model().shape(), settings.bfloat16(), settings.numCeilingThreads())) {
            new Rounds(settings, ceilings, report).run();
        }
        return report;
    }

    /** The parts, in rounds. One thread. */
    private final class Rounds {
        private final BenchSettings settings;
        private final Ceilings ceilings;
        private final Report report;
        private final int numRounds;
        private final Table machine;
        private final Table steps;
        private final Table rollouts;
        private final Table ways;
        private final Samples bandwidths = new Samples();
        private final Samples rates = new Samples();
        private final RolloutCeiling.Turns rolloutSteps = new RolloutCeiling.Turns();
        private double rolloutPromptSeconds;

        Rounds(BenchSettings settings, Ceilings ceilings, Report report) {
            this.settings = settings;
            this.ceilings = ceilings;
            this.report = report;
            numRounds = settings.pick(5, 15);
            report.config("rounds", numRounds);
            machine = report.table("machine", "read_gb_per_s", "float32_gflops", "matrix_bytes", "kv_bytes_per_token");
            steps = report.table(
                    "steps",
                    "tokens",
                    "logits_rows",
                    "gemm_ms",
                    "attention_ms",
                    "attention_by_library_ms",
                    "attention_at_f32_rate_ms",
                    "gemm_gflops",
                    "gemms",
                    "fixed_gemm_ms",
                    "fixed_over_fastest");
            rollouts = report.table(
                    "rollout",
                    "prompts",
                    "prompt_tokens",
                    "samples",
                    "new_tokens",
                    "prompt_ms",
                    "gemm_ms",
                    "attention_ms",
                    "attention_products_ms",
                    "own_kv_ms",
                    "logits_ms",
                    "step_ms",
                    "new_tokens_per_s");
            ways = report.table("ways", "part", "way", "best_ms");
        }

        void run() {
            ceilings.float32Rate().flopsPerSecond();
            Double costAtCheckedBatch = null;
            for (int batch : batchSizes) {
                settings.say("ceilings, decode step of %d", batch);
                Products products = step(batch);
                steps.add(row(batch, batch, products, null, null));
                if (batch == CHECKED_BATCH) {
                    costAtCheckedBatch = products.fixedOverFastest();
                }
            }
            for (int length : lengths) {
                settings.say("ceilings, prompt of %d", length);
                prompt(length);
            }
            addRollout();
            machine.add(
                    bandwidths.median() / 1e9,
                    rates.median() / 1e9,
                    EngineSession.matrixBytes(settings),
                    EngineSession.kvBytesPerToken(settings));
            report.check(
                    "products that reproducible bits leave over the fastest, batch " + CHECKED_BATCH,
                    costAtCheckedBatch,
                    Op.AT_MOST,
                    1.05);
        }

        private Products step(int batch) {
            if (batch != rollout.numSequences()) {
                return measure(ceilings.gemms(batch, batch), batch, batch, () -> {});
            }
            RolloutCeiling ceiling = new RolloutCeiling(settings, ceilings, rollout);
            ceiling.addTried(ways);
            return measure(ceilings.gemms(batch, batch), batch, batch, () -> rolloutSteps.add(ceiling.turn()));
        }

        private void prompt(int length) {
            AttentionCeiling attention = ceilings.promptAttention(length);
            RolloutCeiling.addTried(ways, "attention of " + length + " tokens", attention);
            Samples attentionSeconds = new Samples();
            Products products =
                    measure(ceilings.gemms(length, 1), length, 1, () -> attentionSeconds.add(attention.seconds()));
            double byLibrary = attentionSeconds.median();
            double atRate = PrefillScenario.attentionFlops(settings.model().shape(), length) / rates.median();
            steps.add(row(length, 1, products, byLibrary, atRate));
            if (length == rollout.promptTokens()) {
                rolloutPromptSeconds = products.fastestSeconds() + Math.min(byLibrary, atRate);
            }
        }

        private void addRollout() {
            RolloutCeiling.Parts step = rolloutSteps.medians();
            double seconds = rollout.numPrompts() * rolloutPromptSeconds
                    + (rollout.newTokens() - 1) * step.stepSeconds(); // a sample's first token comes with its prompt
            rollouts.add(
                    rollout.numPrompts(),
                    rollout.promptTokens(),
                    rollout.numSamples(),
                    rollout.newTokens(),
                    rolloutPromptSeconds * 1e3,
                    step.gemmSeconds() * 1e3,
                    step.attentionSeconds() * 1e3,
                    step.attentionProductSeconds() * 1e3,
                    step.ownKvSeconds() * 1e3,
                    step.logitsSeconds() * 1e3,
                    step.stepSeconds() * 1e3,
                    (double) rollout.numSequences() * rollout.newTokens() / seconds);
        }

        /** The products both ways, which take turns with each other, with the two rates, and with what is beside them. */
        private Products measure(GemmCeiling gemms, int rows, int logitsRows, Runnable beside) {
            // Longer prompts are cut into calls of the largest count.
            int numCuts = (rows + MAX_FIXED_ROWS - 1) / MAX_FIXED_ROWS;
            int fixedRows = Math.max(MIN_FIXED_ROWS, (rows + numCuts - 1) / numCuts);
            GemmCeiling fixed = ceilings.fixedGemms(fixedRows, numCuts, Math.max(MIN_FIXED_ROWS, logitsRows));
            Samples fastest = new Samples();
            Samples fixedSeconds = new Samples();
            Samples ratios = new Samples();
            for (int round = 0; round < numRounds; round++) {
                double seconds = gemms.seconds();
                double reproducible = fixed.seconds();
                fastest.add(seconds);
                fixedSeconds.add(reproducible);
                ratios.add(reproducible / seconds);
                bandwidths.add(ceilings.readBandwidth().bytesPerSecond());
                rates.add(ceilings.float32Rate().flopsPerSecond());
                beside.run();
            }
            return new Products(gemms, fastest.median(), fixedSeconds.median(), ratios.median());
        }
    }

    /** Median seconds of a step's products, and of their ratio. */
    private record Products(GemmCeiling gemms, double fastestSeconds, double fixedSeconds, double fixedOverFastest) {}

    /** A row of steps; the seconds of a prompt's attention both ways, null for decode steps. */
    private static Object[] row(int rows, int logitsRows, Products products, Double byLibrary, Double atRate) {
        return new Object[] {
            rows,
            logitsRows,
            products.fastestSeconds() * 1e3,
            byLibrary == null ? null : Math.min(byLibrary, atRate) * 1e3,
            byLibrary == null ? null : byLibrary * 1e3,
            atRate == null ? null : atRate * 1e3,
            products.gemms().flops() / products.fastestSeconds() / 1e9,
            products.gemms().describe(),
            products.fixedSeconds() * 1e3,
            products.fixedOverFastest()
        };
    }
}
