package io.millrace.job.cli;

import io.millrace.job.broker.EmbeddedBroker;
import io.millrace.job.cluster.Signals;
import io.millrace.job.cluster.StopSignal;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code millrace broker}. */
@Command(
        name = "broker",
        description = {
            "Runs a Kafka broker in this process, for trying out streams.",
            "",
            "One KRaft node on localhost. Topics are kept in the data directory. Ctrl-C or SIGTERM ends it."
        },
        footerHeading = "%nExample:%n",
        footer = {"  ./millrace broker --port 9092 --topic prompts --topic completions --topic dead-letters"})
final class BrokerCommand implements Callable<Integer> {

    @Option(
            names = "--port",
            paramLabel = "PORT",
            defaultValue = "9092",
            description = "Port to listen on; 0 takes a free one. Default: ${DEFAULT-VALUE}.")
    int port;

    @Option(
            names = "--data",
            paramLabel = "DIR",
            description = "Where topics are kept. Default: broker/ in the directory for logs and demo files.")
    Path data;

    @Option(names = "--topic", paramLabel = "NAME", description = "Topic to create; may be given several times.")
    List<String> topics = List.of();

    @Option(
            names = "--partitions",
            paramLabel = "N",
            defaultValue = "1",
            description = "Partitions of topics created. Default: ${DEFAULT-VALUE}.")
    int numPartitions;

    @Mixin
    HelpOption help;

    @Override
    @SuppressWarnings("try") // the handler is installed, not used
    public Integer call() throws Exception {
        if (port < 0 || port > 65535) {
            throw new io.millrace.engine.InvalidConfigException(
                    "--port", port, "must be between 0 and 65535", "use 9092, or 0 for a free one");
        }
        if (numPartitions < 1) {
            throw new io.millrace.engine.InvalidConfigException(
                    "--partitions", numPartitions, "must be at least 1", "leave it out for 1");
        }
        Path directory = data != null ? data : Console.home().resolve("broker");
        StopSignal stop = new StopSignal();
        try (Signals signals = Signals.onStop(stop::request);
                EmbeddedBroker broker = EmbeddedBroker.start(directory, port)) {
            if (!topics.isEmpty()) {
                broker.createTopics(topics, numPartitions);
            }
            System.out.println("broker is up; connect with bootstrap.servers=" + broker.bootstrapServers());
            System.out.println("topics are kept in " + broker.dataDirectory() + "; Ctrl-C ends the broker");
            while (!stop.await(Duration.ofHours(1))) {
                Thread.onSpinWait();
            }
            System.out.println("stopping");
        }
        return 0;
    }
}
