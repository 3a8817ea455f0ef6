package io.millrace.bench.cli;

import io.millrace.bench.scenario.KvDtypesScenario;
import io.millrace.bench.scenario.Scenario;
import java.nio.file.Path;
import picocli.CommandLine.Command;

/** {@code millrace bench kv-dtypes}. */
@Command(
        name = "kv-dtypes",
        sortOptions = false,
        description = "What KV in 8 and 4 bits costs: error of the logits and agreement of greedy tokens against KV as"
                + " computed, bytes per token. Nothing is timed. On the demo model unless told otherwise.")
final class KvDtypesCommand extends ScenarioCommand {

    KvDtypesCommand() {
        model = Path.of(System.getProperty("millrace.root", "."))
                .resolve("models/millrace-tiny")
                .toString();
    }

    @Override
    Scenario scenario() {
        return new KvDtypesScenario();
    }
}
