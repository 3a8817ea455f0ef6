package io.millrace.bench.cli;

import io.millrace.bench.scenario.MixedScenario;
import io.millrace.bench.scenario.Scenario;
import picocli.CommandLine.Command;

/** {@code millrace bench mixed}. */
@Command(
        name = "mixed",
        sortOptions = false,
        description = "Continuous against static batching on outputs of 16 to 256 tokens.")
final class MixedCommand extends ScenarioCommand {
    @Override
    Scenario scenario() {
        return new MixedScenario();
    }
}
