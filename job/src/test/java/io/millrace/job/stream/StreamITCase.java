package io.millrace.job.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.connect.RecordFormat;
import io.millrace.connect.kafka.KafkaPromptsOptions.StartFrom;
import io.millrace.connect.kafka.KafkaSetupException;
import io.millrace.engine.EngineConfig;
import io.millrace.job.ChildJvm;
import io.millrace.job.FakeJobs;
import io.millrace.job.broker.EmbeddedBroker;
import io.millrace.job.broker.TopicReader;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.RestorePoint;
import io.millrace.job.cluster.RestorePoints;
import io.millrace.job.cluster.StopSignal;
import io.millrace.job.state.StateException;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.Sampling;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(300)
class StreamITCase {

    private static final int NUM_PROMPTS = 60;
    private static final int NUM_COMPLETIONS = 80;
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path directory;

    private EmbeddedBroker broker;
    private EngineConfig engine;
    private final ByteArrayOutputStream printed = new ByteArrayOutputStream();

    @BeforeEach
    void setUp() throws Exception {
        engine = FakeJobs.engine(directory.resolve("model"));
        FakeJobs.stepMillis(0);
        broker = EmbeddedBroker.start(directory.resolve("broker"), 0);
        broker.createTopics(List.of("prompts", "c1", "d1", "c2", "d2"), 1);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", broker.bootstrapServers()),
                new StringSerializer(),
                new StringSerializer())) {
            FakeJobs.promptLines(NUM_PROMPTS, 4).forEach(line -> producer.send(new ProducerRecord<>("prompts", line)));
            producer.send(new ProducerRecord<>("prompts", "{bad"));
        }
    }

    @AfterEach
    void tearDown() {
        broker.close();
    }

    @Test
    void goesOnAfterACheckpointAndAfterASavepointWithoutLosingOrRepeatingAnything() throws Exception {
        assertTrue(run(options("c1", "d1", "undisturbed", Optional.of(StopAt.LATEST)), new StopSignal())
                .answered());
        Map<String, String> expected = completions("c1");
        assertEquals(NUM_COMPLETIONS, expected.size());
        StateException done = assertThrows(
                StateException.class,
                () -> run(options("c1", "d1", "undisturbed", Optional.of(StopAt.LATEST)), new StopSignal()));
        assertTrue(done.getMessage().contains("--from committed"), done.getMessage());

        FakeJobs.stepMillis(20);
        StreamOptions options = options("c2", "d2", "disturbed", Optional.of(StopAt.LATEST));
        StopSignal stop = new StopSignal();
        CompletableFuture<StreamRun.Outcome> first = start(options, stop);
        awaitNewest(options, 2);
        stop.request();
        assertFalse(first.get().answered());

        long before = newestId(options);
        CompletableFuture<StreamRun.Outcome> second = start(options, new StopSignal());
        awaitNewest(options, before + 2);
        Path savepoint = Path.of(
                java.net.URI.create(SavepointStop.stop(options.cluster().stateDirectory(), Duration.ofMinutes(1))));
        assertFalse(second.get().answered());
        RestorePoint newest = RestorePoints.newest(options.cluster()).orElseThrow();
        assertEquals(savepoint.normalize(), newest.directory().normalize());
        assertTrue(newest.savepoint());
        assertThrows(
                StateException.class,
                () -> SavepointStop.stop(options.cluster().stateDirectory(), Duration.ofSeconds(5)),
                "nothing runs any more");

        FakeJobs.stepMillis(0);
        printed.reset();
        StreamRun.Outcome third = run(options, new StopSignal());
        assertTrue(third.answered());
        assertTrue(printed.toString(StandardCharsets.UTF_8).contains("going on from savepoint"), printed::toString);
        assertTrue(third.counts().orElseThrow().numRestoredTokens() > 0);
        assertEquals(expected, completions("c2"));
        assertEquals(1, read("d2").size());
    }

    @Test
    void sigtermTakesACheckpointAndEndsWithZeroAndTheNextStartGoesOn() throws Exception {
        StreamOptions options = options("c2", "d2", "millrace", Optional.empty());
        try (ChildJvm child = ChildJvm.start(directory, 20, arguments())) {
            child.awaitWhileAlive("a checkpoint", () -> newestId(options) >= 2);
            child.terminate();
            assertEquals(0, child.await(), child.printed());
            assertTrue(child.printed().contains("is complete; the next start goes on from it"), child.printed());
        }
        int numBefore = completions("c2").size();
        assertTrue(numBefore < NUM_COMPLETIONS, "stopped in the middle");
        try (ChildJvm child = ChildJvm.start(directory, 0, arguments())) {
            child.awaitWhileAlive("all completions", () -> completions("c2").size() == NUM_COMPLETIONS);
            assertTrue(child.printed().contains("going on from checkpoint"), child.printed());
            child.terminate();
            assertEquals(0, child.await(), child.printed());
        }
        assertEquals(1, read("d2").size());
    }

    @Test
    void avroAtLeastOnceShowsResultsAtOnce() throws Exception {
        broker.createTopics(List.of("p3", "c3", "d3"), 1);
        Prompt prompt = Prompt.newBuilder()
                .setRequestId("a")
                .setPromptTokenIds(List.of(5, 6, 7))
                .setSampling(
                        Sampling.newBuilder().setMaxTokens(9).setIgnoreEos(true).build())
                .build();
        ByteBuffer encoded = prompt.toByteBuffer();
        byte[] value = new byte[encoded.remaining()];
        encoded.get(value);
        try (KafkaProducer<String, byte[]> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", broker.bootstrapServers()),
                new StringSerializer(),
                new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>("p3", value));
            producer.send(new ProducerRecord<>("p3", new byte[] {1, 2, 3}));
        }
        List<String> arguments = new ArrayList<>(arguments());
        arguments.replaceAll(argument -> argument.replaceAll("=c2$", "=c3")
                .replaceAll("=d2$", "=d3")
                .replaceAll("=prompts$", "=p3")
                .replaceAll("=200ms$", "=1h"));
        arguments.addAll(List.of("--format=avro", "--delivery=at-least-once"));
        try (ChildJvm child = ChildJvm.start(directory, 0, arguments)) {
            child.awaitWhileAlive("the completion, an hour before the next checkpoint", () -> count("c3") == 1);
            child.awaitWhileAlive("the dead letter", () -> count("d3") == 1);
            child.terminate();
            assertEquals(0, child.await(), child.printed());
        }
        Completion completion =
                Completion.fromByteBuffer(ByteBuffer.wrap(records("c3").get(0).value()));
        assertEquals("a", completion.getRequestId());
        assertEquals(9, completion.getTokenIds().size());
        DeadLetter letter =
                DeadLetter.fromByteBuffer(ByteBuffer.wrap(records("d3").get(0).value()));
        assertEquals("invalid_avro", letter.getError().getCode());
    }

    @Test
    void whatTheBrokersWouldRefuseLaterIsRefusedAtTheStart() {
        KafkaSetupException topic = assertThrows(
                KafkaSetupException.class,
                () -> run(options("nowhere", "d1", "refused", Optional.empty()), new StopSignal()));
        assertTrue(topic.getMessage().contains("nowhere"), topic.getMessage());
    }

    private StreamRun.Outcome run(StreamOptions options, StopSignal stop) throws InterruptedException {
        return new StreamRun(options, new PrintStream(printed, true, StandardCharsets.UTF_8), false, NUM_PROMPTS, stop)
                .run();
    }

    private CompletableFuture<StreamRun.Outcome> start(StreamOptions options, StopSignal stop) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return run(options, stop);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    private List<String> arguments() {
        return List.of(
                "run",
                "--device=fake",
                "--bootstrap-servers=" + broker.bootstrapServers(),
                "--prompts=prompts",
                "--completions=c2",
                "--dead-letters=d2",
                "--model=" + engine.model(),
                "--kv-cache-memory-bytes=1Mi",
                "--max-num-seqs=16",
                "--checkpoint-interval=200ms",
                "--state=" + directory.resolve("millrace"));
    }

    private StreamOptions options(String completions, String deadLetters, String group, Optional<StopAt> until) {
        return new StreamOptions(
                broker.bootstrapServers(),
                "prompts",
                completions,
                deadLetters,
                group,
                StartFrom.EARLIEST,
                until,
                Delivery.EXACTLY_ONCE,
                Duration.ofMinutes(15),
                RecordFormat.JSON,
                Map.of(),
                engine,
                TierOptions.NONE,
                new Sampling(),
                0,
                new ClusterOptions(directory.resolve(group), 1, Duration.ofMillis(200), 0, 0),
                false);
    }

    /** Token ids by request id and index; fails when one comes twice. */
    private Map<String, String> completions(String topic) {
        Map<String, String> tokens = new TreeMap<>();
        for (JsonNode completion : read(topic)) {
            String key = completion.path("request_id").asText() + "/" + completion.path("index");
            String before = tokens.put(key, completion.path("token_ids").toString());
            assertEquals(null, before, key + " came out twice");
        }
        return tokens;
    }

    private List<JsonNode> read(String topic) {
        return records(topic).stream()
                .map(read -> {
                    try {
                        return JSON.readTree(read.value());
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                })
                .toList();
    }

    private List<ConsumerRecord<byte[], byte[]>> records(String topic) {
        return TopicReader.readCommitted(broker.bootstrapServers(), topic, Duration.ofSeconds(30));
    }

    private int count(String topic) {
        return records(topic).size();
    }

    private static long newestId(StreamOptions options) {
        return RestorePoints.newest(options.cluster())
                .map(RestorePoint::checkpointId)
                .orElse(0L);
    }

    private static void awaitNewest(StreamOptions options, long id) throws InterruptedException {
        long deadline = System.nanoTime() + Duration.ofMinutes(2).toNanos();
        while (newestId(options) < id) {
            assertTrue(System.nanoTime() < deadline, "no checkpoint " + id);
            Thread.sleep(20);
        }
    }
}
