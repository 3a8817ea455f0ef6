package io.millrace.job.recovery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.Dtype;
import io.millrace.connect.RecordFormat;
import io.millrace.connect.kafka.KafkaPromptsOptions.StartFrom;
import io.millrace.engine.EngineConfig;
import io.millrace.job.ChildJvm;
import io.millrace.job.FakeJobs;
import io.millrace.job.broker.EmbeddedBroker;
import io.millrace.job.broker.TopicReader;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.StopSignal;
import io.millrace.job.stream.Delivery;
import io.millrace.job.stream.StopAt;
import io.millrace.job.stream.StreamOptions;
import io.millrace.job.stream.StreamRun;
import io.millrace.operators.tier.TierOptions;
import io.millrace.sampling.LogprobsMode;
import io.millrace.schemas.Sampling;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Whole jobs that fail: real broker, exactly-once sinks, read_committed reader, RocksDB state. */
@Timeout(300)
class RecoveryITCase {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String DEMO_MODEL =
            Path.of("../models/millrace-tiny").toAbsolutePath().normalize().toString();

    @TempDir
    Path directory;

    @Test
    void aJobThatFailsInMidGenerationEmitsEverySampleOnceWithTheBitsOfAnUndisturbedRun() throws Exception {
        try (EmbeddedBroker broker = EmbeddedBroker.start(directory.resolve("broker"), 0)) {
            broker.createTopics(List.of("prompts", "c1", "d1", "c2", "d2"), 2);
            produce(broker, chats(40));
            EngineConfig engine = demoEngine();

            FlakyCpuProvider.failAt(Set.of());
            run(options(broker, "undisturbed", "c1", "d1", engine, Duration.ofMillis(300), Map.of()));
            Map<String, String> undisturbed = completions(broker, "c1");
            assertEquals(40 * 4, undisturbed.size());
            int numSteps = FlakyCpuProvider.numSteps();

            // Early, in the middle and, counting the steps done again, late.
            FlakyCpuProvider.failAt(Set.of(numSteps / 4, numSteps / 2, numSteps * 3 / 4, numSteps));
            StreamRun.Outcome outcome =
                    run(options(broker, "disturbed", "c2", "d2", engine, Duration.ofMillis(100), Map.of()));
            assertTrue(outcome.counts().orElseThrow().numRestoredRequests() > 0, "nothing was in flight at a failure");
            assertTrue(outcome.counts().orElseThrow().numRestoredTokens() > 0, "no token was taken over");
            assertTrue(FlakyCpuProvider.numSteps() > numSteps, "the job did not fail: " + numSteps);
            assertEquals(undisturbed, completions(broker, "c2"));
            assertEquals(0, read(broker, "d2").size());
        }
    }

    @Test
    void anOutputLargerThanTheTopicTakesIsADeadLetter() throws Exception {
        try (EmbeddedBroker broker = EmbeddedBroker.start(directory.resolve("broker"), 0)) {
            broker.createTopics(List.of("prompts", "dead"), 1);
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker.bootstrapServers()))) {
                admin.createTopics(List.of(
                                new NewTopic("narrow", 1, (short) 1).configs(Map.of("max.message.bytes", "3000"))))
                        .all()
                        .get();
            }
            List<String> prompts = new ArrayList<>();
            prompts.add("{\"request_id\":\"small\",\"prompt_token_ids\":[5,6],"
                    + "\"sampling\":{\"max_tokens\":5,\"ignore_eos\":true}}");
            prompts.add("{\"request_id\":\"large\",\"prompt_token_ids\":[5,7],"
                    + "\"sampling\":{\"max_tokens\":400,\"ignore_eos\":true,\"logprobs\":5}}");
            produce(broker, prompts);
            EngineConfig engine = FakeJobs.engine(directory.resolve("model"));
            StreamRun.Outcome outcome =
                    run(options(broker, "narrow", "narrow", "dead", engine, Duration.ofMillis(200), Map.of()));
            assertTrue(outcome.answered());
            assertEquals(1, completions(broker, "narrow").size());
            JsonNode letter = read(broker, "dead").get(0);
            assertEquals("large", letter.path("request_id").asText());
            assertEquals("output_too_large", letter.path("error").path("code").asText());
            assertEquals("prompts", letter.path("source").path("topic").asText());
            assertEquals(1, letter.path("source").path("offset").asInt());
        }
    }

    @Test
    void aRequestThatHaltsTheProcessEndsInTheErrorsAloneAndTheBatchFinishes() throws Exception {
        List<String> prompts = new ArrayList<>(FakeJobs.promptLines(30, 9));
        prompts.add(10, "{\"request_id\":\"poison\",\"prompt_token_ids\":[5,668,7],\"sampling\":{\"n\":2}}");
        Path input = FakeJobs.write(directory.resolve("prompts.jsonl"), prompts);
        Path output = directory.resolve("out.jsonl");
        EngineConfig engine = FakeJobs.engine(directory.resolve("model"));
        List<String> arguments = List.of(
                "batch",
                "--device=fake",
                "--model=" + engine.model(),
                "--kv-cache-memory-bytes=1Mi",
                "--max-num-seqs=8",
                "--checkpoint-interval=300ms",
                "--input=" + input,
                "--output=" + output);
        int numStarts = 0;
        int exit = 137;
        while (exit != 0) {
            numStarts++;
            assertTrue(numStarts <= 8, "the poison is never put aside");
            try (ChildJvm child = ChildJvm.start(directory, 0, arguments)) {
                exit = child.await();
                assertTrue(exit == 0 || exit == 137, child.printed());
            }
        }
        assertTrue(numStarts > 3, "the poison did not halt the process");
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(output)) {
            lines.add(JSON.readTree(line));
        }
        List<JsonNode> errors = lines.stream().filter(line -> line.has("error")).toList();
        assertEquals(1, errors.size());
        assertEquals("poison", errors.get(0).path("request_id").asText());
        assertEquals("poison_request", errors.get(0).path("error").path("code").asText());
        assertEquals(40, lines.size() - 1); // 30 prompts, every third with two samples
    }

    private EngineConfig demoEngine() {
        return new EngineConfig(
                DEMO_MODEL,
                FlakyCpuProvider.NAME,
                Dtype.AUTO,
                512,
                24,
                256,
                16 << 20,
                true,
                16,
                0,
                LogprobsMode.RAW_LOGPROBS);
    }

    /** Questions of the demo model's kinds, four samples each, at a temperature that makes them differ. */
    private static List<String> chats(int count) {
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            lines.add(("{\"request_id\":\"q%d\",\"messages\":[{\"role\":\"user\",\"content\":\"Compute %d + %d.\"}],"
                            + "\"sampling\":{\"n\":4,\"temperature\":1.5,\"max_tokens\":60,\"min_tokens\":30,\"logprobs\":1}}")
                    .formatted(i, 11 + i, 80 - i));
        }
        return lines;
    }

    private static void produce(EmbeddedBroker broker, List<String> lines) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", broker.bootstrapServers()),
                new StringSerializer(),
                new StringSerializer())) {
            lines.forEach(line -> producer.send(new ProducerRecord<>("prompts", line)));
        }
    }

    private StreamOptions options(
            EmbeddedBroker broker,
            String group,
            String completions,
            String deadLetters,
            EngineConfig engine,
            Duration checkpointInterval,
            Map<String, String> kafkaProperties) {
        return new StreamOptions(
                broker.bootstrapServers(),
                "prompts",
                completions,
                deadLetters,
                group,
                StartFrom.EARLIEST,
                Optional.of(StopAt.LATEST),
                Delivery.EXACTLY_ONCE,
                Duration.ofMinutes(15),
                RecordFormat.JSON,
                kafkaProperties,
                engine,
                TierOptions.NONE,
                new Sampling(),
                0,
                new ClusterOptions(directory.resolve(group), 1, checkpointInterval, 0, 20),
                false);
    }

    private static StreamRun.Outcome run(StreamOptions options) throws InterruptedException {
        PrintStream quiet = new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8);
        StreamRun.Outcome outcome = new StreamRun(options, quiet, false, -1, new StopSignal()).run();
        assertTrue(outcome.answered());
        return outcome;
    }

    /** What must not differ between runs, by request id and index; fails when one comes twice. */
    private static Map<String, String> completions(EmbeddedBroker broker, String topic) throws Exception {
        Map<String, String> bits = new TreeMap<>();
        for (JsonNode completion : read(broker, topic)) {
            String key = completion.path("request_id").asText() + "/" + completion.path("index");
            String value = completion.path("token_ids") + " " + completion.path("logprobs") + " "
                    + completion.path("text") + " " + completion.path("finish_reason") + " " + completion.path("seed");
            assertEquals(null, bits.put(key, value), key + " came out twice");
        }
        return bits;
    }

    private static List<JsonNode> read(EmbeddedBroker broker, String topic) throws Exception {
        List<JsonNode> records = new ArrayList<>();
        for (var read : TopicReader.readCommitted(broker.bootstrapServers(), topic, Duration.ofSeconds(30))) {
            records.add(JSON.readTree(read.value()));
        }
        return records;
    }
}
