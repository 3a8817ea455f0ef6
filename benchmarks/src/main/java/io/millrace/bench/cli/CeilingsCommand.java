package io.millrace.bench.cli;

import io.millrace.bench.scenario.CeilingsScenario;
import io.millrace.bench.scenario.Scenario;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code millrace bench ceilings}. */
@Command(
        name = "ceilings",
        sortOptions = false,
        description = "What this machine can reach, without the engine: the model's products alone, read bandwidth,"
                + " float32 rate.")
final class CeilingsCommand extends ScenarioCommand {
    private static final int MAX_ROWS = 1 << 14;

    @Option(
            names = "--batch-sizes",
            split = ",",
            paramLabel = "N",
            description = "Decode steps, comma-separated. Default: ${DEFAULT-VALUE}.")
    List<Integer> batchSizes = List.of(1, 64, 128);

    @Option(
            names = "--lengths",
            split = ",",
            paramLabel = "TOKENS",
            description = "Prompts, comma-separated. Default: ${DEFAULT-VALUE}.")
    List<Integer> lengths = List.of(1024);

    @Override
    Scenario scenario() {
        return new CeilingsScenario(
                numbers("--batch-sizes", batchSizes, 1, MAX_ROWS), numbers("--lengths", lengths, 1, MAX_ROWS));
    }
}
