package io.millrace.bench.cli;

import io.millrace.job.cli.AddedCommand;

/** Brings {@code bench} to the {@code millrace} command line. */
public final class AddedBenchCommand implements AddedCommand {
    @Override
    public Object newCommand() {
        return new BenchCommand();
    }
}
