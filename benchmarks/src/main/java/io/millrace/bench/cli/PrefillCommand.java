package io.millrace.bench.cli;

import io.millrace.bench.scenario.PrefillScenario;
import io.millrace.bench.scenario.Scenario;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code millrace bench prefill}. */
@Command(
        name = "prefill",
        sortOptions = false,
        description = "Prompts by length: time over products alone plus attention at the float32 rate.")
final class PrefillCommand extends ScenarioCommand {
    @Option(
            names = "--lengths",
            split = ",",
            paramLabel = "TOKENS",
            description = "Comma-separated. Default: 128,1024; with --full 64 to 2048.")
    List<Integer> lengths;

    @Override
    Scenario scenario() {
        return new PrefillScenario(numbers("--lengths", lengths, 1, PrefillScenario.MAX_PROMPT_TOKENS));
    }
}
