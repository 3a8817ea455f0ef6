package io.millrace.job.cli;

import io.millrace.connect.RecordFormat;
import io.millrace.connect.kafka.KafkaPromptsOptions.StartFrom;
import io.millrace.engine.InvalidConfigException;
import io.millrace.job.cluster.Signals;
import io.millrace.job.cluster.StopSignal;
import io.millrace.job.stream.Delivery;
import io.millrace.job.stream.StopAt;
import io.millrace.job.stream.StreamOptions;
import io.millrace.job.stream.StreamRun;
import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** {@code millrace run}. */
@Command(
        name = "run",
        sortOptions = false,
        customSynopsis = "millrace run --bootstrap-servers HOST:PORT --prompts TOPIC --completions TOPIC"
                + " --dead-letters TOPIC --model DIR [options]",
        description = {
            "Answers a topic of prompts, endlessly.",
            "",
            "SIGTERM or Ctrl-C takes a checkpoint and stops; `savepoint` stops with a savepoint. The next start with the same"
                    + " state goes on from the newer of the two. Read completions with isolation.level=read_committed."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  ./millrace broker --topic prompts --topic completions --topic dead-letters      (in another terminal)",
            "  ./millrace run --bootstrap-servers localhost:9092 --prompts prompts --completions completions \\",
            "      --dead-letters dead-letters --model models/millrace-tiny",
            "  ./millrace run ... --format avro --delivery at-least-once --kafka-properties client.properties",
            "Exit codes: 0 stopped or done, 1 failed, 2 wrong command line."
        })
final class RunCommand implements Callable<Integer> {

    @Option(
            names = "--bootstrap-servers",
            required = true,
            paramLabel = "HOST:PORT",
            description = "Kafka brokers, separated by commas.")
    String bootstrapServers;

    @Option(names = "--prompts", required = true, paramLabel = "TOPIC", description = "Topic to read prompts from.")
    String prompts;

    @Option(names = "--completions", required = true, paramLabel = "TOPIC", description = "Topic for completions.")
    String completions;

    @Option(
            names = "--dead-letters",
            required = true,
            paramLabel = "TOPIC",
            description = "Topic for requests that failed, with the original record and the reason.")
    String deadLetters;

    @Option(names = "--model", required = true, paramLabel = "DIR", description = "Hugging Face model directory.")
    Path model;

    @Option(
            names = "--format",
            paramLabel = "FORMAT",
            converter = ChoiceConverter.OfFormat.class,
            description = "How records are written: json or avro (single-object encoding). Default: json.")
    RecordFormat format = RecordFormat.JSON;

    @Option(
            names = "--delivery",
            paramLabel = "KIND",
            converter = ChoiceConverter.OfDelivery.class,
            description =
                    "exactly-once: results show with each checkpoint. at-least-once: at once, after a failure some"
                            + " again with equal bits. Default: exactly-once.")
    Delivery delivery = Delivery.EXACTLY_ONCE;

    @Option(
            names = "--group",
            paramLabel = "NAME",
            description = "Consumer group; also names transactions and the default state directory."
                    + " Default: ${DEFAULT-VALUE}.")
    String group = "millrace";

    @Option(
            names = "--from",
            paramLabel = "WHERE",
            converter = ChoiceConverter.OfStartFrom.class,
            description = "Where a first start begins to read: earliest, latest, or committed (the group's offsets)."
                    + " Default: earliest.")
    StartFrom from = StartFrom.EARLIEST;

    @Option(
            names = "--until",
            paramLabel = "WHERE",
            converter = ChoiceConverter.OfStopAt.class,
            description =
                    "latest: end when everything is answered that was there at the first start. Default: never end.")
    StopAt until;

    @Option(
            names = "--kafka-properties",
            paramLabel = "FILE",
            description = "Properties file with further client settings: SASL, TLS, max.request.size and so on.")
    Path kafkaProperties;

    @Option(
            names = "--transaction-timeout",
            paramLabel = "TIME",
            converter = DurationConverter.class,
            description = "How long brokers keep what a job that has gone away wrote and did not commit; at most the"
                    + " brokers' transaction.max.timeout.ms. Default: 15m.")
    Duration transactionTimeout = Duration.ofMinutes(15);

    @Option(
            names = "--state",
            paramLabel = "DIR",
            description = "Checkpoints and savepoints. Default: run/GROUP in the directory for logs and demo files.")
    Path state;

    @Option(
            names = "--allow-fingerprint-change",
            description =
                    "Go on from a checkpoint taken with another CPU's arithmetic. Results may then differ in bits.")
    boolean allowFingerprintChange;

    @ArgGroup(validate = false, heading = "%nEngine:%n")
    EngineOptions engine = new EngineOptions();

    @ArgGroup(validate = false, heading = "%nPrefix tier:%n")
    PrefixTierOptions tier = new PrefixTierOptions();

    @ArgGroup(validate = false, heading = "%nSampling, for requests that do not say (above generation_config.json):%n")
    SamplingOptions sampling = new SamplingOptions();

    @ArgGroup(validate = false, heading = "%nJob:%n")
    JobOptions job = new JobOptions();

    @Mixin
    HelpOption help;

    /** Where a stream keeps its state unless told otherwise. */
    static Path defaultStateDirectory(String group) {
        // A name of dots alone would be a directory above.
        String name = group.replaceAll("[^A-Za-z0-9._-]", "_").replaceFirst("^\\.", "_");
        return Console.home().resolve("run").resolve(name);
    }

    @Override
    @SuppressWarnings("try") // the handler is installed, not used
    public Integer call() throws Exception {
        StreamOptions options = new StreamOptions(
                bootstrapServers,
                prompts,
                completions,
                deadLetters,
                group,
                from,
                Optional.ofNullable(until),
                delivery,
                transactionTimeout,
                format,
                properties(),
                engine.toConfig(model).withTier(tier.toConfig()),
                tier.toOptions(),
                sampling.toDefaults(),
                engine.seed,
                job.toClusterOptions(state != null ? state : defaultStateDirectory(group), tier.kind),
                allowFingerprintChange);
        StopSignal stop = new StopSignal();
        try (Signals signals = Signals.onStop(stop::request)) {
            new StreamRun(options, System.err, Console.isTerminal(), -1, stop).run();
            return 0;
        }
    }

    private Map<String, String> properties() {
        Map<String, String> properties = new TreeMap<>();
        if (kafkaProperties != null) {
            Properties read = new Properties();
            try (Reader reader = Files.newBufferedReader(kafkaProperties)) {
                read.load(reader);
            } catch (IOException | IllegalArgumentException e) {
                throw new InvalidConfigException(
                        "--kafka-properties",
                        kafkaProperties,
                        "cannot be read: " + e,
                        "give a file with lines of key=value");
            }
            read.stringPropertyNames().forEach(name -> properties.put(name, read.getProperty(name)));
        }
        return properties;
    }
}
