package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.ceiling.GemmCeiling;
import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import java.util.List;

/**
 * The machine's ceilings for a model, without the engine: what other engines' figures can be held against, too. Beside the
 * fastest products stand those that reproducible bits leave (docs/determinism.md): what the contract costs.
 */
public final class CeilingsScenario implements Scenario {
    /** Rows of a call that reproducible bits leave: fewer are padded, more are cut. */
    private static final int MIN_FIXED_ROWS = 4;

    private static final int MAX_FIXED_ROWS = 256;
    private static final int CHECKED_BATCH = 64;

    private final List<Integer> batchSizes;
    private final List<Integer> lengths;

    /**
     * @param batchSizes sequences of decode steps
     * @param lengths tokens of prompts
     */
    public CeilingsScenario(List<Integer> batchSizes, List<Integer> lengths) {
        this.batchSizes = batchSizes;
        this.lengths = lengths;
    }

    @Override
    public Report run(BenchSettings settings) {
        int numRounds = settings.pick(5, 15);
        Report report = Machine.newReport("ceilings", settings)
                .config("batch_sizes", batchSizes)
                .config("prompt_tokens", lengths)
                .config("rounds", numRounds);
        Table machine =
                report.table("machine", "read_gb_per_s", "float32_gflops", "matrix_bytes", "kv_bytes_per_token");
        Table steps = report.table(
                "steps",
                "tokens",
                "logits_rows",
                "gemm_ms",
                "attention_ms",
                "gemm_gflops",
                "gemms",
                "fixed_gemm_ms",
                "fixed_over_fastest");
        Double costAtCheckedBatch = null;
        Samples bandwidths = new Samples();
        Samples rates = new Samples();
        try (Ceilings ceilings =
                new Ceilings(settings.model().shape(), settings.bfloat16(), settings.numCeilingThreads())) {
            ceilings.float32Rate().flopsPerSecond();
            for (int batch : batchSizes) {
                settings.say("ceilings, decode step of %d", batch);
                GemmCeiling gemms = ceilings.gemms(batch, batch);
                Products products = measure(ceilings, gemms, batch, batch, numRounds, bandwidths, rates);
                addStep(steps, batch, batch, null, gemms, products);
                if (batch == CHECKED_BATCH) {
                    costAtCheckedBatch = products.fixedOverFastest();
                }
            }
            for (int length : lengths) {
                settings.say("ceilings, prompt of %d", length);
                GemmCeiling gemms = ceilings.gemms(length, 1);
                Products products = measure(ceilings, gemms, length, 1, numRounds, bandwidths, rates);
                double attention =
                        PrefillScenario.attentionFlops(settings.model().shape(), length) / rates.median();
                addStep(steps, length, 1, attention * 1e3, gemms, products);
            }
        }
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
        return report;
    }

    /** Median seconds of a step's products, and of their ratio. */
    private record Products(double fastestSeconds, double fixedSeconds, double fixedOverFastest) {}

    private static void addStep(
            Table steps, int rows, int logitsRows, Double attentionMillis, GemmCeiling gemms, Products products) {
        steps.add(
                rows,
                logitsRows,
                products.fastestSeconds() * 1e3,
                attentionMillis,
                gemms.flops() / products.fastestSeconds() / 1e9,
                gemms.describe(),
                products.fixedSeconds() * 1e3,
                products.fixedOverFastest());
    }

    /** The products both ways, which take turns with each other and with the two rates. */
    private static Products measure(
            Ceilings ceilings,
            GemmCeiling gemms,
            int rows,
            int logitsRows,
            int numRounds,
            Samples bandwidths,
            Samples rates) {
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
        }
        return new Products(fastest.median(), fixedSeconds.median(), ratios.median());
    }
}
