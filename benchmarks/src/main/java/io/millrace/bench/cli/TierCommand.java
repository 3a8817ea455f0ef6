package io.millrace.bench.cli;

import io.millrace.bench.scenario.Scenario;
import io.millrace.bench.scenario.TierScenario;
import io.millrace.bench.scenario.TierScenario.Part;
import io.millrace.engine.InvalidConfigException;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/** {@code millrace bench tier}. */
@Command(
        name = "tier",
        sortOptions = false,
        description =
                "The prefix-KV tier against computing and loading alone: the tables of the Cake paper on virtual time,"
                        + " throttled stores, mixed arrivals, overhead, read bandwidth, and questions over documents.")
final class TierCommand extends ScenarioCommand {
    @Option(
            names = "--parts",
            split = ",",
            paramLabel = "PART",
            description = "Comma-separated, of virtual, real, twin, mixed, overhead, stores, flink."
                    + " Default: all; twin, a multi-head twin of the model, only with --full.")
    List<String> parts;

    @Override
    Scenario scenario() {
        Set<Part> chosen = EnumSet.noneOf(Part.class);
        for (String name : parts == null ? List.<String>of() : parts) {
            chosen.add(part(name));
        }
        return new TierScenario(chosen);
    }

    private static Part part(String name) {
        for (Part part : Part.values()) {
            if (part.optionName().equals(name)) {
                return part;
            }
        }
        throw new InvalidConfigException(
                "--parts",
                name,
                "must be of virtual, real, twin, mixed, overhead, stores, flink",
                "leave it out for all of them");
    }
}
