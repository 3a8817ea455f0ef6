package io.millrace.bench.scenario;

import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.ceiling.GemmCeiling;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import java.util.List;

/** The machine's ceilings for a model, without the engine: what other engines' figures can be held against, too. */
public final class CeilingsScenario implements Scenario {
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
        Table steps = report.table("steps", "tokens", "logits_rows", "gemm_ms", "attention_ms", "gemm_gflops", "gemms");
        Samples bandwidths = new Samples();
        Samples rates = new Samples();
        try (Ceilings ceilings =
                new Ceilings(settings.model().shape(), settings.bfloat16(), settings.numCeilingThreads())) {
            ceilings.float32Rate().flopsPerSecond();
            for (int batch : batchSizes) {
                settings.say("ceilings, decode step of %d", batch);
                GemmCeiling gemms = ceilings.gemms(batch, batch);
                double seconds = measure(ceilings, gemms, numRounds, bandwidths, rates);
                steps.add(batch, batch, seconds * 1e3, null, gemms.flops() / seconds / 1e9, gemms.describe());
            }
            for (int length : lengths) {
                settings.say("ceilings, prompt of %d", length);
                GemmCeiling gemms = ceilings.gemms(length, 1);
                double seconds = measure(ceilings, gemms, numRounds, bandwidths, rates);
                double attention =
                        PrefillScenario.attentionFlops(settings.model().shape(), length) / rates.median();
                steps.add(length, 1, seconds * 1e3, attention * 1e3, gemms.flops() / seconds / 1e9, gemms.describe());
            }
        }
        machine.add(
                bandwidths.median() / 1e9,
                rates.median() / 1e9,
                EngineSession.matrixBytes(settings),
                EngineSession.kvBytesPerToken(settings));
        return report;
    }

    /** Median seconds of the products, which take turns with the two rates. */
    private static double measure(
            Ceilings ceilings, GemmCeiling gemms, int numRounds, Samples bandwidths, Samples rates) {
        Samples products = new Samples();
        for (int round = 0; round < numRounds; round++) {
            products.add(gemms.seconds());
            bandwidths.add(ceilings.readBandwidth().bytesPerSecond());
            rates.add(ceilings.float32Rate().flopsPerSecond());
        }
        return products.median();
    }
}
