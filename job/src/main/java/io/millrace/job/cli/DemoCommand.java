package io.millrace.job.cli;

import io.millrace.engine.InvalidConfigException;
import io.millrace.job.cluster.Signals;
import io.millrace.job.cluster.StopSignal;
import io.millrace.job.demo.DemoRun;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** {@code millrace demo}. */
@Command(
        name = "demo",
        sortOptions = false,
        customSynopsis = "millrace demo [options]",
        description = {
            "Shows all of it in one process, on a small model that comes along.",
            "",
            "Starts a Kafka broker and a Flink cluster, writes a few hundred prompts to a topic (some of them wrong), lets the"
                    + " job answer them, and shows what came out: samples, pass@k, counts. Asks for nothing and leaves its"
                    + " files in .millrace/demo."
        },
        footerHeading = "%nExample:%n",
        footer = {"  ./millrace demo", "Exit codes: 0 when every prompt came out once, 1 otherwise."})
final class DemoCommand implements Callable<Integer> {

    @ArgGroup(validate = false, heading = "%nEngine:%n")
    EngineOptions engine = new EngineOptions();

    @Mixin
    HelpOption help;

    @Override
    @SuppressWarnings("try") // the handler is installed, not used
    public Integer call() throws Exception {
        Path model = Console.root().resolve("models").resolve("millrace-tiny");
        if (!Files.isDirectory(model)) {
            throw new InvalidConfigException(
                    "demo model", model, "is not there", "start the demo with ./millrace from a complete checkout");
        }
        StopSignal stop = new StopSignal();
        try (Signals signals = Signals.onStop(stop::request)) {
            DemoRun demo = new DemoRun(
                    Console.home().resolve("demo"),
                    engine.toConfig(model),
                    System.out,
                    System.err,
                    Console.isTerminal(),
                    stop);
            return demo.run() ? 0 : 1;
        }
    }
}
