package io.millrace.bench.cli;

import io.millrace.bench.scenario.FlinkScenario;
import io.millrace.bench.scenario.Scenario;
import picocli.CommandLine.Command;

/** {@code millrace bench flink}. */
@Command(
        name = "flink",
        sortOptions = false,
        description = "The whole Flink job against the bare engine, in alternating blocks, with checkpoints to disk.")
final class FlinkCommand extends ScenarioCommand {
    @Override
    Scenario scenario() {
        return new FlinkScenario();
    }
}
