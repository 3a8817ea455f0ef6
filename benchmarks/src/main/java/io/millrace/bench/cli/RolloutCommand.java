package io.millrace.bench.cli;

import io.millrace.bench.scenario.RolloutScenario;
import io.millrace.bench.scenario.Scenario;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code millrace bench rollout}. */
@Command(
        name = "rollout",
        sortOptions = false,
        description = "A few long prompts with many samples each: whole against parts, shared KV reads against none."
                + " Checks are measured at the default sizes only.")
final class RolloutCommand extends ScenarioCommand {
    private static final int MAX = 1 << 16;

    @Option(names = "--prompts", paramLabel = "N", description = "Distinct prompts. Default: ${DEFAULT-VALUE}.")
    int numPrompts = 8;

    @Option(names = "--prompt-tokens", paramLabel = "N", description = "Of each. Default: ${DEFAULT-VALUE}.")
    int promptTokens = 1024;

    @Option(names = "--samples", paramLabel = "N", description = "Of each prompt. Default: ${DEFAULT-VALUE}.")
    int numSamples = 16;

    @Option(names = "--new-tokens", paramLabel = "N", description = "Of each sample. Default: ${DEFAULT-VALUE}.")
    int newTokens = 64;

    @Override
    Scenario scenario() {
        return new RolloutScenario(new RolloutScenario.Sizes(
                number("--prompts", numPrompts, 1, MAX),
                number("--prompt-tokens", promptTokens, 1, MAX),
                number("--samples", numSamples, 1, MAX),
                number("--new-tokens", newTokens, 1, MAX)));
    }
}
