package io.millrace.job.demo;

import io.millrace.connect.RecordFormat;
import io.millrace.connect.kafka.KafkaPromptsOptions.StartFrom;
import io.millrace.engine.EngineConfig;
import io.millrace.job.broker.EmbeddedBroker;
import io.millrace.job.broker.TopicReader;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.EmbeddedCluster;
import io.millrace.job.cluster.StopSignal;
import io.millrace.job.demo.DemoPrompt.Kind;
import io.millrace.job.state.RunLock;
import io.millrace.job.stream.Delivery;
import io.millrace.job.stream.StopAt;
import io.millrace.job.stream.StreamOptions;
import io.millrace.job.stream.StreamRun;
import io.millrace.model.ModelDirectory;
import io.millrace.operators.inference.JobCounts;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.Sampling;
import io.millrace.tokenizer.Tokenizer;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** The demonstration from its first prompt to its last figure; keeps what it made in a directory of its own. */
public final class DemoRun {

    private static final String PROMPTS = "prompts";
    private static final String COMPLETIONS = "completions";
    private static final String DEAD_LETTERS = "dead-letters";
    private static final long SEED = 2026;
    private static final Duration READ_TIMEOUT = Duration.ofMinutes(1);
    private static final int NUM_SHOWN_PER_KIND = 2;
    private static final int MAX_SHOWN_CHARACTERS = 100;

    private final Path directory;
    private final EngineConfig engine;
    private final PrintStream out;
    private final PrintStream progress;
    private final boolean terminal;
    private final StopSignal stop;

    /**
     * @param directory emptied first; holds topics, checkpoints and the files written at the end
     * @param engine the engine, with the demo model
     * @param out for results
     * @param progress for progress
     * @param terminal whether lines of the progress can be rewritten
     * @param stop ends the demo early
     */
    public DemoRun(
            Path directory,
            EngineConfig engine,
            PrintStream out,
            PrintStream progress,
            boolean terminal,
            StopSignal stop) {
        this.directory = directory.toAbsolutePath().normalize();
        this.engine = engine;
        this.out = out;
        this.progress = progress;
        this.terminal = terminal;
        this.stop = stop;
    }

    /** Runs the demo; true if everything that went in came out as it should. */
    @SuppressWarnings("try") // the lock is held, not used
    public boolean run() throws InterruptedException {
        List<DemoPrompt> prompts = prompts();
        try (RunLock lock = RunLock.acquire(directory)) {
            for (String part : List.of("broker", "state")) {
                EmbeddedCluster.deleteRecursively(directory.resolve(part));
            }
            progress.println("starting a Kafka broker in this process ...");
            try (EmbeddedBroker broker = EmbeddedBroker.start(directory.resolve("broker"), 0)) {
                broker.createTopics(List.of(PROMPTS, COMPLETIONS, DEAD_LETTERS), 1);
                produce(broker, prompts);
                progress.printf(
                        "broker at %s; %d prompts are in topic %s%n",
                        broker.bootstrapServers(), prompts.size(), PROMPTS);
                long startNanos = System.nanoTime();
                StreamRun.Outcome outcome =
                        new StreamRun(streamOptions(broker), progress, terminal, prompts.size(), stop).run();
                if (!outcome.answered()) {
                    out.println("the demo was stopped before its end");
                    return false;
                }
                double seconds = (System.nanoTime() - startNanos) / 1e9;
                List<byte[]> completions = read(broker, COMPLETIONS);
                List<byte[]> deadLetters = read(broker, DEAD_LETTERS);
                DemoResults results = new DemoResults(prompts, completions, deadLetters);
                writeFiles(prompts, completions, deadLetters);
                report(prompts, results, outcome.counts().orElseThrow(), seconds);
                return results.defects().isEmpty();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(
                    "the demo's directory " + directory + " cannot be used: " + e.getMessage(), e);
        }
    }

    private List<DemoPrompt> prompts() {
        Path model = Path.of(engine.model());
        try (Tokenizer tokenizer = Tokenizer.open(model)
                .orElseThrow(() -> new IllegalStateException("the demo model " + model + " has no tokenizer.json"))) {
            int contextTokens = ModelDirectory.open(model).spec().maxPositionEmbeddings();
            return DemoPrompts.make(tokenizer, contextTokens, SEED);
        }
    }

    private static void produce(EmbeddedBroker broker, List<DemoPrompt> prompts) throws InterruptedException {
        Map<String, Object> properties = Map.of("bootstrap.servers", broker.bootstrapServers(), "acks", "all");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = prompts.stream()
                    .map(prompt -> producer.send(new ProducerRecord<>(PROMPTS, prompt.requestId(), prompt.json())))
                    .toList();
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        } catch (java.util.concurrent.ExecutionException e) {
            throw new IllegalStateException("the in-JVM broker refused a prompt: " + e.getCause(), e.getCause());
        }
    }

    private StreamOptions streamOptions(EmbeddedBroker broker) {
        return new StreamOptions(
                broker.bootstrapServers(),
                PROMPTS,
                COMPLETIONS,
                DEAD_LETTERS,
                "demo",
                StartFrom.EARLIEST,
                Optional.of(StopAt.LATEST),
                Delivery.EXACTLY_ONCE,
                Duration.ofMinutes(15),
                RecordFormat.JSON,
                Map.of(),
                engine,
                TierOptions.NONE,
                new Sampling(),
                0,
                new ClusterOptions(
                        directory.resolve("state"), 1, Duration.ofSeconds(2), 0, ClusterOptions.DEFAULT_NUM_RESTARTS),
                false);
    }

    private static List<byte[]> read(EmbeddedBroker broker, String topic) {
        return TopicReader.readCommitted(broker.bootstrapServers(), topic, READ_TIMEOUT).stream()
                .map(ConsumerRecord::value)
                .toList();
    }

    private void writeFiles(List<DemoPrompt> prompts, List<byte[]> completions, List<byte[]> deadLetters)
            throws IOException {
        writeLines(
                "prompts.jsonl",
                prompts.stream()
                        .map(prompt -> prompt.json().getBytes(StandardCharsets.UTF_8))
                        .toList());
        writeLines("completions.jsonl", completions);
        writeLines("dead-letters.jsonl", deadLetters);
    }

    private void writeLines(String name, List<byte[]> lines) throws IOException {
        try (OutputStream file = Files.newOutputStream(directory.resolve(name))) {
            for (byte[] line : lines) {
                file.write(line);
                file.write('\n');
            }
        }
    }

    private void report(List<DemoPrompt> prompts, DemoResults results, JobCounts counts, double seconds) {
        for (Kind kind : Kind.values()) {
            List<DemoPrompt> ofKind =
                    prompts.stream().filter(prompt -> prompt.kind() == kind).toList();
            out.printf("%n%s (%d prompts)%n", kind.title(), ofKind.size());
            ofKind.stream()
                    .limit(kind == Kind.BAD ? ofKind.size() : NUM_SHOWN_PER_KIND)
                    .forEach(prompt -> out.println("  " + shown(prompt.question()) + "  ->  "
                            + shown(
                                    kind == Kind.BAD
                                            ? results.error(prompt)
                                            : results.texts(prompt).get(0))));
        }
        out.printf(
                Locale.ROOT,
                "%narithmetic, %d samples each at temperature 1.5: pass@1 %.3f, pass@8 %.3f%n",
                DemoPrompts.NUM_ARITHMETIC_SAMPLES,
                results.passAt(1),
                results.passAt(DemoPrompts.NUM_ARITHMETIC_SAMPLES));
        for (Kind kind : List.of(Kind.WORD_PROBLEM, Kind.SENTIMENT, Kind.EXTRACTION)) {
            long numAsked =
                    prompts.stream().filter(prompt -> prompt.kind() == kind).count();
            out.printf("%s, greedy: %d of %d right%n", kind.title(), results.numRight(kind), numAsked);
        }
        out.printf(
                Locale.ROOT,
                "%n%,d tokens generated and %,d prompt tokens computed in %.1f s of steps (%.1f s with Flink's start and end):"
                        + " %,.0f tokens/s generated%n",
                counts.numGeneratedTokens(),
                counts.numPrefillTokens(),
                counts.stepNanos() / 1e9,
                seconds,
                counts.numGeneratedTokens() / Math.max(1e-9, counts.stepNanos() / 1e9));
        out.printf(
                "%d prompts in = %d completed (%d completions) + %d dead-lettered %s: %s%n",
                prompts.size(),
                results.numCompleted(),
                results.numCompletions(),
                results.numDeadLetters(),
                new java.util.TreeMap<>(results.numByCode()),
                results.defects().isEmpty() ? "all there, each once" : "NOT AS IT SHOULD BE");
        results.defects().forEach(defect -> out.println("  " + defect));
        out.println("files: " + directory.resolve("prompts.jsonl") + ", completions.jsonl, dead-letters.jsonl");
    }

    private static String shown(String text) {
        String line = text.strip().replace("\n", " \\ ");
        return line.length() <= MAX_SHOWN_CHARACTERS ? line : line.substring(0, MAX_SHOWN_CHARACTERS - 1) + "…";
    }
}
