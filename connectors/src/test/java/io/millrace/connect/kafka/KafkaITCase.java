package io.millrace.connect.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.connect.HeldOpenSource;
import io.millrace.connect.Jobs;
import io.millrace.connect.RecordFormat;
import io.millrace.connect.Recorder;
import io.millrace.connect.Results;
import io.millrace.connect.WireRecords;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Sampling;
import io.millrace.schemas.Source;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.runtime.testutils.MiniClusterResourceConfiguration;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class KafkaITCase {
    private static final int PARALLELISM = 2;
    private static final int NUM_PARTITIONS = 3;
    private static final int NUM_PROMPTS = 500;
    private static final long CHECKPOINT_MS = 200;
    private static final Duration TRANSACTION_TIMEOUT = Duration.ofMinutes(5);

    @RegisterExtension
    static final MiniClusterExtension CLUSTER = new MiniClusterExtension(new MiniClusterResourceConfiguration.Builder()
            .setNumberTaskManagers(1)
            .setNumberSlotsPerTaskManager(PARALLELISM)
            .build());

    @TempDir
    static Path brokerDirectory;

    private static Broker broker;

    @TempDir
    Path directory;

    @BeforeAll
    static void startBroker() throws Exception {
        broker = new Broker(brokerDirectory);
    }

    @AfterAll
    static void stopBroker() {
        broker.close();
    }

    private static KafkaSinkOptions sinkOptions(String topic, RecordFormat format, Map<String, String> properties) {
        return new KafkaSinkOptions(
                broker.bootstrapServers(),
                topic,
                format,
                DeliveryGuarantee.EXACTLY_ONCE,
                "test-" + topic,
                TRANSACTION_TIMEOUT,
                properties);
    }

    private static KafkaPromptsOptions promptsOptions(String topic, RecordFormat format) {
        return new KafkaPromptsOptions(
                broker.bootstrapServers(),
                topic,
                "group-" + topic,
                KafkaPromptsOptions.StartFrom.COMMITTED,
                true,
                format,
                Map.of(),
                List.of());
    }

    /** Every 25th record is bad, every 50th has no value. */
    private static List<ProducerRecord<byte[], byte[]>> prompts(String topic, RecordFormat format) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int i = 1; i <= NUM_PROMPTS; i++) {
            byte[] value = prompt(format, "r" + i, i % 25 != 0);
            ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(topic, i % NUM_PARTITIONS, null, i % 50 == 0 ? null : value);
            record.headers().add(new RecordHeader("trace", WireRecords.utf8("t" + i)));
            records.add(record);
        }
        return records;
    }

    private static byte[] prompt(RecordFormat format, String id, boolean good) throws Exception {
        if (format == RecordFormat.JSON) {
            return WireRecords.utf8("{\"request_id\":\"" + id + "\",\"" + (good ? "prompt" : "promt")
                    + "\":\"x\",\"sampling\":{\"n\":2}}");
        }
        Sampling sampling = new Sampling();
        sampling.setN(2);
        Prompt prompt = new Prompt();
        prompt.setRequestId(id);
        prompt.setPrompt(good ? "x" : null);
        prompt.setSampling(sampling);
        java.nio.ByteBuffer bytes = Prompt.getEncoder().encode(prompt);
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        return copy;
    }

    @ParameterizedTest
    @EnumSource(RecordFormat.class)
    void readCommittedConsumersSeeEveryResultOnceDespiteFailures(RecordFormat format) throws Exception {
        String prompts = "prompts-" + format;
        String completions = "completions-" + format;
        String deadLetters = "dead-letters-" + format;
        for (String topic : List.of(prompts, completions, deadLetters)) {
            broker.createTopic(topic, NUM_PARTITIONS, Map.of());
        }
        broker.send(prompts(prompts, format));
        Results.failTimes(2, 150);
        Recorder.Notes notes = Recorder.freshNotes(format.name());
        JobClient job = start(format.name(), format, CHECKPOINT_MS, null);
        notes.awaitEnd(PARALLELISM);
        assertEquals(0, Results.numFailuresLeft());
        Jobs.stop(job, directory);
        checkCompletions(broker.readCommitted(completions), format);
        checkDeadLetters(broker.readCommitted(deadLetters), format, prompts);
    }

    /** The state of a job that died after a checkpoint was complete and before its transactions were committed. */
    @Test
    void whatACheckpointHoldsIsCommittedAfterTheRestore() throws Exception {
        for (String topic : List.of("prompts-late", "completions-late", "dead-letters-late")) {
            broker.createTopic(topic, NUM_PARTITIONS, Map.of());
        }
        broker.send(prompts("prompts-late", RecordFormat.JSON));
        Results.failTimes(0, 1);
        Recorder.Notes notes = Recorder.freshNotes("late");
        JobClient job = start("late", RecordFormat.JSON, 3_600_000, null);
        notes.awaitEnd(PARALLELISM);
        String savepoint = Jobs.savepointAndCancel(job, directory);
        // The first checkpoint comes with the first records; the others are in transactions that nobody has committed.
        int numVisible = broker.readCommitted("completions-late").size();
        assertTrue(numVisible < NUM_PROMPTS, numVisible + " completions are visible");
        // A partition that is added later lies beyond the end of a job that reads until the latest of its start.
        broker.addPartition("prompts-late", NUM_PARTITIONS, prompt(RecordFormat.JSON, "too late", true));
        Recorder.Notes restored = Recorder.freshNotes("late");
        JobClient again = start("late", RecordFormat.JSON, CHECKPOINT_MS, savepoint);
        restored.awaitEnd(PARALLELISM);
        Jobs.stop(again, directory);
        assertEquals(0, restored.records.size());
        checkCompletions(broker.readCommitted("completions-late"), RecordFormat.JSON);
        checkDeadLetters(broker.readCommitted("dead-letters-late"), RecordFormat.JSON, "prompts-late");
    }

    private JobClient start(String suffix, RecordFormat format, long checkpointMs, String savepoint) throws Exception {
        StreamExecutionEnvironment environment = Jobs.environment(directory, PARALLELISM, savepoint);
        environment.enableCheckpointing(checkpointMs);
        SingleOutputStreamOperator<Completion> results = environment
                .fromSource(
                        new HeldOpenSource<>(KafkaPrompts.source(promptsOptions("prompts-" + suffix, format))),
                        WatermarkStrategy.noWatermarks(),
                        "prompts")
                .uid("prompts")
                .rebalance()
                .process(new Results())
                .uid("results")
                .returns(Results.COMPLETIONS);
        results.transform("recorder", Results.COMPLETIONS, new Recorder<>(suffix))
                .uid("recorder")
                .sinkTo(KafkaCompletions.sink(sinkOptions("completions-" + suffix, format, Map.of())))
                .uid("completions");
        results.getSideOutput(Results.DEAD_LETTERS)
                .sinkTo(KafkaDeadLetters.sink(sinkOptions("dead-letters-" + suffix, format, Map.of())))
                .uid("dead-letters");
        return environment.executeAsync(suffix);
    }

    private static void checkCompletions(List<ConsumerRecord<byte[], byte[]>> records, RecordFormat format)
            throws Exception {
        Set<String> expected = new HashSet<>();
        for (int i = 1; i <= NUM_PROMPTS; i++) {
            if (i % 25 != 0) {
                expected.add("r" + i + "/0 t" + i);
                expected.add("r" + i + "/1 t" + i);
            }
        }
        Set<String> actual = new HashSet<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            String id;
            int index;
            if (format == RecordFormat.JSON) {
                JsonNode json = new ObjectMapper().readTree(record.value());
                id = json.get("request_id").textValue();
                index = json.get("index").intValue();
            } else {
                Completion completion = Completion.getDecoder().decode(record.value());
                id = completion.getRequestId();
                index = completion.getIndex();
            }
            assertEquals(id, new String(record.key(), StandardCharsets.UTF_8));
            String trace = new String(record.headers().lastHeader("trace").value(), StandardCharsets.UTF_8);
            actual.add(id + "/" + index + " " + trace);
        }
        assertEquals(expected, actual);
        assertEquals(expected.size(), records.size());
    }

    private static void checkDeadLetters(
            List<ConsumerRecord<byte[], byte[]>> records, RecordFormat format, String prompts) throws Exception {
        assertEquals(NUM_PROMPTS / 25, records.size());
        Set<String> coordinates = new HashSet<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            String trace = new String(record.headers().lastHeader("trace").value(), StandardCharsets.UTF_8);
            int i = Integer.parseInt(trace.substring(1));
            boolean tombstone = i % 50 == 0;
            if (format == RecordFormat.AVRO) {
                DeadLetter letter = DeadLetter.getDecoder().decode(record.value());
                assertEquals(
                        tombstone ? "null_record" : "missing_field",
                        letter.getError().getCode());
                byte[] original = new byte[letter.getOriginal().remaining()];
                letter.getOriginal().get(original);
                assertArrayEquals(tombstone ? new byte[0] : prompt(format, "r" + i, false), original);
                coordinates.add(letter.getSource().getPartition() + "@"
                        + letter.getSource().getOffset());
            } else {
                JsonNode json = new ObjectMapper().readTree(record.value());
                assertEquals(
                        tombstone ? "null_record" : "unknown_field",
                        json.at("/error/code").textValue());
                assertEquals(prompts, json.at("/source/topic").textValue());
                coordinates.add(json.at("/source/partition") + "@" + json.at("/source/offset"));
                String original = json.get("original").textValue();
                assertEquals(tombstone ? "" : new String(prompt(format, "r" + i, false)), original);
            }
            if (tombstone) {
                assertNull(record.key());
            } else {
                assertEquals("r" + i, new String(record.key(), StandardCharsets.UTF_8));
            }
        }
        assertEquals(NUM_PROMPTS / 25, coordinates.size());
    }

    @Test
    void offsetsAreCommittedWithCheckpointsAndTheNextJobGoesOnFromThem() throws Exception {
        broker.createTopic("again", NUM_PARTITIONS, Map.of());
        broker.send(prompts("again", RecordFormat.JSON));
        assertEquals(NUM_PROMPTS, readAll("again", NUM_PROMPTS).size());
        List<ProducerRecord<byte[], byte[]>> more =
                List.of(new ProducerRecord<>("again", 0, null, prompt(RecordFormat.JSON, "new", true)));
        broker.send(more);
        assertEquals(Set.of("new"), readAll("again", NUM_PROMPTS + 1));
    }

    private Set<Object> readAll(String topic, long numRecords) throws Exception {
        Recorder.Notes notes = Recorder.freshNotes(topic);
        StreamExecutionEnvironment environment = Jobs.environment(directory, PARALLELISM, null);
        environment
                .fromSource(
                        new HeldOpenSource<>(KafkaPrompts.source(promptsOptions(topic, RecordFormat.JSON))),
                        WatermarkStrategy.noWatermarks(),
                        "prompts")
                .transform("recorder", new AvroTypeInfo<>(PromptEnvelope.class), new Recorder<>(topic))
                .sinkTo(new DiscardingSink<>());
        JobClient job = environment.executeAsync(topic);
        notes.awaitEnd(PARALLELISM);
        // The broker is told of a checkpoint's offsets after it is complete, and a stop does not wait for the answer.
        broker.awaitCommitted("group-" + topic, numRecords);
        Jobs.stop(job, directory);
        return notes.records.stream()
                .map(r -> (PromptEnvelope) r)
                .map(e -> e.getRequestId() == null ? e.getSource() : e.getRequestId())
                .collect(Collectors.toSet());
    }

    @Test
    void theLargestRecordIsTakenByTheBroker() throws Exception {
        broker.createTopic("small", 1, Map.of("max.message.bytes", "5000"));
        try (KafkaStartChecks checks = checks(broker.bootstrapServers())) {
            OutputLimits limits = checks.outputLimits("small", Map.of("max.request.size", "100000"));
            assertEquals(new OutputLimits("small", 100_000, 5000), limits);
            assertEquals(5000, limits.largestRecordBytes());
            assertEquals(
                    900,
                    checks.outputLimits("small", Map.of("max.request.size", "900"))
                            .largestRecordBytes());
        }
        KafkaSinkOptions options = sinkOptions("small", RecordFormat.JSON, Map.of());
        Completion completion = WireRecords.smallCompletion("r", 0, new Source(null, null, "prompts", 0, 1L));
        completion.setHeaders(WireRecords.fullCompletion().getHeaders());
        completion.setText("");
        long room = 5000 - KafkaCompletions.recordBytes(options).apply(completion);
        completion.setText("x".repeat((int) room));
        assertEquals(5000, KafkaCompletions.recordBytes(options).apply(completion));
        ResultSerializer<Completion> serializer = KafkaCompletions.serializer(options);
        broker.send(List.of(serializer.serialize(completion, null, null)));
        // The count is an upper bound, and not a loose one.
        completion.setText("x".repeat((int) room + 100));
        Exception e =
                assertThrows(Exception.class, () -> broker.send(List.of(serializer.serialize(completion, null, null))));
        assertTrue(e.getMessage().contains("RecordTooLarge"), e.getMessage());
    }

    private static KafkaStartChecks checks(String bootstrapServers) {
        return new KafkaStartChecks(bootstrapServers, Map.of(), Duration.ofSeconds(3));
    }

    private static void assertRefused(Runnable check, String... messages) {
        KafkaSetupException e = assertThrows(KafkaSetupException.class, check::run);
        for (String message : messages) {
            assertTrue(e.getMessage().contains(message), e.getMessage());
        }
    }

    @Test
    void whatCannotWorkIsSaidAtTheStart() throws Exception {
        broker.createTopic("present", 1, Map.of());
        try (KafkaStartChecks checks = checks(broker.bootstrapServers())) {
            checks.requireTopic("present");
            assertRefused(() -> checks.requireTopic("absent"), "topic is \"absent\"", "no such topic", "create it");
            assertRefused(() -> checks.requireTopic("bad/name"), "topic is bad/name", "broker refused");
            checks.requireOrCreateTopic("created", 4);
            checks.requireOrCreateTopic("created", 4);
            checks.requireTopic("created");
            Duration second = Duration.ofSeconds(1);
            checks.requireTransactionTimeout(Duration.ofMinutes(15), second, second);
            assertRefused(
                    () -> checks.requireTransactionTimeout(Duration.ofMinutes(16), second, second),
                    "transaction.timeout.ms is 960000",
                    "transaction.max.timeout.ms is 900000");
            assertRefused(
                    () -> checks.requireTransactionTimeout(Duration.ofSeconds(5), second, Duration.ofSeconds(5)),
                    "transaction.timeout.ms is 5000",
                    "at least 6000");
            assertRefused(
                    () -> checks.outputLimits("present", Map.of("max.request.size", "1m")),
                    "max.request.size is \"1m\"");
        }
        assertRefused(() -> checks("localhost:1"), "bootstrap-servers is localhost:1", "no broker answered");
        assertRefused(() -> checks("nonsense"), "bootstrap-servers is nonsense");
        assertRefused(
                () -> sinkOptions("t", RecordFormat.JSON, Map.of("transactional.id", "x")), "transactional.id is x");
    }
}
