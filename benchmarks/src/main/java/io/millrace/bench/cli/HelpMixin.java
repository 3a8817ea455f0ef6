package io.millrace.bench.cli;

import picocli.CommandLine.Option;

/** {@code --help} of every command. */
final class HelpMixin {
    @Option(
            names = {"-h", "--help"},
            usageHelp = true,
            description = "Show this help.")
    boolean requested;
}
