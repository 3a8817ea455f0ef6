package io.millrace.job;

import io.millrace.job.cli.MillraceCommand;

/** Entry point of the command line; see {@code ./millrace --help}. */
public final class Millrace {

    private Millrace() {}

    public static void main(String[] arguments) {
        System.exit(MillraceCommand.run(arguments));
    }
}
