package io.millrace.bench.cli;

import io.millrace.bench.scenario.Scenario;
import io.millrace.bench.scenario.ThroughputScenario;
import io.millrace.engine.InvalidConfigException;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code millrace bench throughput}. */
@Command(
        name = "throughput",
        sortOptions = false,
        description = "Requests from submission to the last token, prefill included, as other engines report it.")
final class ThroughputCommand extends ScenarioCommand {
    private static final int MAX = 1 << 16;

    @Option(names = "--requests", paramLabel = "N", description = "Submitted together. Default: ${DEFAULT-VALUE}.")
    int numRequests = 64;

    @Option(names = "--prompt-tokens", paramLabel = "N", description = "Of each. Default: ${DEFAULT-VALUE}.")
    int promptTokens = 128;

    @Option(
            names = "--new-tokens",
            paramLabel = "N",
            description = "Of each sample; 1 measures prefill. Default: ${DEFAULT-VALUE}.")
    int newTokens = 128;

    @Option(names = "--samples", paramLabel = "N", description = "Of each request. Default: ${DEFAULT-VALUE}.")
    int numSamples = 1;

    @Option(names = "--temperature", paramLabel = "T", description = "0 is greedy. Default: ${DEFAULT-VALUE}.")
    float temperature = 1;

    @Option(names = "--top-p", paramLabel = "P", description = "1 is off. Default: ${DEFAULT-VALUE}.")
    float topP = 0.95f;

    @Option(names = "--rounds", paramLabel = "N", description = "Measured after warming up. Default: 1; with --full 5.")
    Integer numRounds;

    @Override
    Scenario scenario() {
        if (!(temperature >= 0 && temperature <= 100)) {
            throw new InvalidConfigException("--temperature", temperature, "must be between 0 and 100", "try 1");
        }
        if (!(topP > 0 && topP <= 1)) {
            throw new InvalidConfigException("--top-p", topP, "must be above 0 and at most 1", "try 0.95");
        }
        ThroughputScenario.Sizes sizes = new ThroughputScenario.Sizes(
                number("--requests", numRequests, 1, MAX),
                number("--prompt-tokens", promptTokens, 1, MAX),
                number("--new-tokens", newTokens, 1, MAX),
                number("--samples", numSamples, 1, MAX),
                temperature,
                topP);
        return new ThroughputScenario(sizes, numRounds == null ? null : number("--rounds", numRounds, 1, MAX));
    }
}
