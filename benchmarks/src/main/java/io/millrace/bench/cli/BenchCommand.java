package io.millrace.bench.cli;

import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code millrace bench}: names the scenarios. */
@Command(
        name = "bench",
        sortOptions = false,
        description = {
            "Measures the engine and the whole job, beside what this machine can reach.",
            "",
            "On random weights of a named shape unless told otherwise, with distinct random prompts, temperature 1 and"
                    + " top_p 0.95. Ceilings are measured in the same run by code of their own. Default sizes take under a"
                    + " minute each; nothing else should run on the machine meanwhile."
        },
        subcommands = {
            DecodeCommand.class,
            PrefillCommand.class,
            MixedCommand.class,
            RolloutCommand.class,
            SharedPrefixCommand.class,
            PressureCommand.class,
            ThroughputCommand.class,
            TierCommand.class,
            SpeculationCommand.class,
            FlinkCommand.class,
            KvDtypesCommand.class,
            CeilingsCommand.class,
            ExportModelCommand.class
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  ./millrace bench decode",
            "  ./millrace bench decode --full --check --json decode.json --html decode.html",
            "  ./millrace bench prefill --model models/millrace-tiny",
            "  ./millrace bench export-model --shape smollm2-135m --out /tmp/random-135m",
            "",
            "docs/benchmarks.md explains the figures."
        })
final class BenchCommand implements Runnable {
    @Spec
    CommandSpec spec;

    @Mixin
    HelpMixin help;

    @Override
    public void run() {
        throw new ParameterException(
                spec.commandLine(),
                "a scenario is missing: " + String.join(", ", spec.subcommands().keySet()));
    }
}
