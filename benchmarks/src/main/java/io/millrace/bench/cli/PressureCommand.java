package io.millrace.bench.cli;

import io.millrace.bench.scenario.PressureScenario;
import io.millrace.bench.scenario.Scenario;
import picocli.CommandLine.Command;

/** {@code millrace bench pressure}. */
@Command(
        name = "pressure",
        sortOptions = false,
        description = "A KV pool a third of what is wanted: the same tokens, at what price.")
final class PressureCommand extends ScenarioCommand {
    @Override
    Scenario scenario() {
        return new PressureScenario();
    }
}
