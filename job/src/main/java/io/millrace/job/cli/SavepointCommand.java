package io.millrace.job.cli;

import io.millrace.job.stream.SavepointStop;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code millrace savepoint}. */
@Command(
        name = "savepoint",
        description = {
            "Stops a running job with a savepoint.",
            "",
            "The next `run` with the same state directory goes on from the savepoint."
        },
        footerHeading = "%nExample:%n",
        footer = {"  ./millrace savepoint --group millrace"})
final class SavepointCommand implements Callable<Integer> {

    @Option(
            names = "--group",
            paramLabel = "NAME",
            defaultValue = "millrace",
            description = "Consumer group of the job; names its default state directory. Default: ${DEFAULT-VALUE}.")
    String group;

    @Option(names = "--state", paramLabel = "DIR", description = "State directory of the job, if it was given one.")
    Path state;

    @Option(
            names = "--timeout",
            paramLabel = "TIME",
            defaultValue = "10m",
            converter = DurationConverter.class,
            description = "How long to wait for the savepoint. Default: ${DEFAULT-VALUE}.")
    Duration timeout;

    @Mixin
    HelpOption help;

    @Override
    public Integer call() throws Exception {
        Path stateDirectory = state != null ? state : RunCommand.defaultStateDirectory(group);
        System.out.println("stopped; savepoint: " + SavepointStop.stop(stateDirectory, timeout));
        return 0;
    }
}
