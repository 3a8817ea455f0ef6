package io.millrace.bench.cli;

import io.millrace.bench.scenario.Scenario;
import io.millrace.bench.scenario.SharedPrefixScenario;
import picocli.CommandLine.Command;

/** {@code millrace bench shared-prefix}. */
@Command(
        name = "shared-prefix",
        sortOptions = false,
        description = "Many prompts under one system prompt, with the prefix cache and without.")
final class SharedPrefixCommand extends ScenarioCommand {
    @Override
    Scenario scenario() {
        return new SharedPrefixScenario();
    }
}
