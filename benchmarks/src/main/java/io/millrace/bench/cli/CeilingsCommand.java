package io.millrace.bench.cli;

import io.millrace.bench.scenario.CeilingsScenario;
import io.millrace.bench.scenario.RolloutScenario;
import io.millrace.bench.scenario.Scenario;
import io.millrace.engine.InvalidConfigException;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code millrace bench ceilings}. */
@Command(
        name = "ceilings",
        sortOptions = false,
        description = "What this machine can reach, without the engine: the model's products alone, read bandwidth,"
                + " float32 rate, attention, all that a rollout must at least do.")
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

    @Option(
            names = "--rollout",
            split = ",",
            paramLabel = "N",
            description = "Prompts, tokens of each, samples of each, new tokens of each sample, comma-separated."
                    + " Default: ${DEFAULT-VALUE}.")
    List<Integer> rollout = List.of(8, 1024, 16, 64);

    @Override
    Scenario scenario() {
        numbers("--rollout", rollout, 1, MAX_ROWS);
        if (rollout.size() != 4 || (long) rollout.get(0) * rollout.get(2) > MAX_ROWS) {
            throw new InvalidConfigException(
                    "--rollout",
                    rollout,
                    "must be four numbers, prompts times samples at most " + MAX_ROWS,
                    "leave it out for the default");
        }
        return new CeilingsScenario(
                numbers("--batch-sizes", batchSizes, 1, MAX_ROWS),
                numbers("--lengths", lengths, 1, MAX_ROWS),
                new RolloutScenario.Sizes(rollout.get(0), rollout.get(1), rollout.get(2), rollout.get(3)));
    }
}
