package io.millrace.bench.cli;

import io.millrace.bench.scenario.Scenario;
import io.millrace.bench.scenario.SpeculationScenario;
import java.nio.file.Path;
import picocli.CommandLine.Command;

/** {@code millrace bench speculation}. */
@Command(
        name = "speculation",
        sortOptions = false,
        description =
                "Prompt lookup against plain steps on a model that answers, one request at a time and 64 together.")
final class SpeculationCommand extends ScenarioCommand {
    SpeculationCommand() {
        model = Path.of(System.getProperty("millrace.root", "."))
                .resolve("models/millrace-tiny")
                .toString();
    }

    @Override
    Scenario scenario() {
        return new SpeculationScenario();
    }
}
