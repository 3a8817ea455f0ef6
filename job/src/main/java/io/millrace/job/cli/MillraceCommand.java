package io.millrace.job.cli;

import java.util.ServiceLoader;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** {@code millrace} itself: names the commands. */
@Command(
        name = "millrace",
        description = {
            "Millrace: streaming LLM inference on Apache Flink.",
            "",
            "A stream of prompts in, completions out, each exactly once, whatever is killed in between."
        },
        subcommands = {
            DemoCommand.class,
            BatchCommand.class,
            RunCommand.class,
            BrokerCommand.class,
            SavepointCommand.class,
            PlanCommand.class
        },
        footerHeading = "%nTo begin with:%n",
        footer = {
            "  ./millrace demo                      everything in one process, on a small model that comes along",
            "  ./millrace batch --model DIR --input prompts.jsonl --output out.jsonl",
            "  ./millrace broker                    a broker to try streams with, then in another terminal:",
            "  ./millrace run --bootstrap-servers localhost:9092 --prompts prompts --completions completions \\",
            "      --dead-letters dead-letters --model DIR",
            "",
            "./millrace COMMAND --help explains a command. MILLRACE_JAVA_OPTS passes options to the JVM, MILLRACE_HOME",
            "says where logs, demo files and the state of streams go (default: .millrace beside the launcher).",
            "Exit codes: 0 success, 1 failure, 2 wrong command line."
        })
public final class MillraceCommand implements Runnable {

    @Spec
    CommandSpec spec;

    @Mixin
    HelpOption help;

    /** Runs the command line; returns the exit code. */
    public static int run(String... arguments) {
        return newCommandLine().execute(arguments);
    }

    /** The whole command line, for running it and for documenting it. */
    static CommandLine newCommandLine() {
        ErrorReport report = new ErrorReport();
        CommandLine commandLine = new CommandLine(new MillraceCommand());
        for (AddedCommand added : ServiceLoader.load(AddedCommand.class, MillraceCommand.class.getClassLoader())) {
            commandLine.addSubcommand(added.newCommand());
        }
        // These go to the subcommands there are, so they come last.
        commandLine
                .setParameterExceptionHandler(report)
                .setExecutionExceptionHandler(report)
                .setUsageHelpWidth(110)
                .setUsageHelpLongOptionsMaxWidth(34)
                .setUsageHelpAutoWidth(false);
        return commandLine;
    }

    @Override
    public void run() {
        throw new ParameterException(spec.commandLine(), "a command is missing: demo, batch, run, broker or savepoint");
    }
}
