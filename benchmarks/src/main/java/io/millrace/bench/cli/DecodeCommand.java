package io.millrace.bench.cli;

import io.millrace.bench.scenario.DecodeScenario;
import io.millrace.bench.scenario.Scenario;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code millrace bench decode}. */
@Command(
        name = "decode",
        sortOptions = false,
        description = "Decode steps by batch size: step time over products alone plus KV reads, allocation per step.")
final class DecodeCommand extends ScenarioCommand {
    @Option(
            names = "--batch-sizes",
            split = ",",
            paramLabel = "N",
            description = "Comma-separated. Default: 1,16,64; with --full 1 to 256.")
    List<Integer> batchSizes;

    @Option(
            names = "--context",
            paramLabel = "TOKENS",
            description = "Tokens of every sequence, midway. Default: ${DEFAULT-VALUE}.")
    int contextTokens = 192;

    @Override
    Scenario scenario() {
        return new DecodeScenario(
                numbers("--batch-sizes", batchSizes, 1, 4096), number("--context", contextTokens, 1, 1 << 20));
    }
}
