package io.millrace.job.batch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.engine.EngineConfig;
import io.millrace.job.FakeJobs;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.RestorePoint;
import io.millrace.job.cluster.RestorePoints;
import io.millrace.job.cluster.StopSignal;
import io.millrace.job.state.RunLock;
import io.millrace.job.state.StateException;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.Sampling;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(300)
class BatchITCase {

    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path directory;

    private EngineConfig engine;
    private final ByteArrayOutputStream printed = new ByteArrayOutputStream();

    @BeforeEach
    void setUp() {
        engine = FakeJobs.engine(directory.resolve("model"));
        FakeJobs.stepMillis(0);
    }

    @Test
    void answersEveryLineOnceSummarisesAndDoesNothingWhenDone() throws Exception {
        List<String> lines = new ArrayList<>(FakeJobs.promptLines(40, 1));
        lines.add("");
        lines.add("{\"request_id\": \"r7\", \"prompt_token_ids\": [5]}");
        lines.add("{not json");
        lines.add("{\"request_id\": \"far\", \"prompt_token_ids\": [99999]}");
        Path input = FakeJobs.write(directory.resolve("in.jsonl"), lines);
        BatchOptions options = options(input, "out.jsonl", 0);

        assertTrue(run(options));

        List<JsonNode> results = read(options.output());
        assertEquals(40 + 14 + 3, results.size(), "14 of 40 requests have two samples, three lines are bad");
        assertEquals(
                List.of("duplicate_request_id", "invalid_json", "token_id_out_of_vocabulary"),
                results.stream()
                        .filter(result -> result.has("error"))
                        .map(result -> result.path("error").path("code").asText())
                        .toList());
        assertTrue(results.stream()
                .anyMatch(
                        result -> result.path("error").path("message").asText().contains("line 8")));
        JsonNode summary = JSON.readTree(options.summary().orElseThrow().toFile());
        assertEquals(43, summary.path("input_records").asInt());
        assertEquals(40, summary.path("completed").asInt());
        assertEquals(54, summary.path("completions").asInt());
        assertEquals(1, summary.path("failed_by_code").path("invalid_json").asInt());
        assertEquals(
                results.stream()
                        .mapToInt(result -> result.path("token_ids").size())
                        .sum(),
                summary.path("completion_tokens").asInt());
        assertTrue(summary.path("peak_memory_bytes").asLong() > 0);
        assertEquals(1, summary.path("starts").asInt());

        byte[] output = Files.readAllBytes(options.output());
        assertTrue(run(options));
        assertTrue(printed.toString(StandardCharsets.UTF_8).contains("done already"), printed::toString);
        Files.delete(options.output());
        assertTrue(run(options), "the parts are still there: merging them again is enough");
        assertArrayEquals(output, Files.readAllBytes(options.output()));
    }

    @Test
    void resumesWithItsTokensAndTheSameBytesPassesOverADamagedCheckpointAndRefusesAnotherBatch() throws Exception {
        Path input = FakeJobs.write(directory.resolve("in.jsonl"), FakeJobs.promptLines(80, 2));
        BatchOptions undisturbed = options(input, "undisturbed.jsonl", 0);
        assertTrue(run(undisturbed));

        FakeJobs.stepMillis(20);
        BatchOptions options = options(input, "out.jsonl", 0);
        StopSignal stop = new StopSignal();
        Thread stopper = new Thread(() -> awaitCheckpoint(options.cluster(), 3, stop));
        stopper.start();
        assertFalse(new BatchRun(options, out(), false, stop).run(), "stopped in the middle");
        stopper.join();

        assertThrows(StateException.class, () -> run(options(input, "out.jsonl", 1)), "another --seed");
        try (RunLock lock = RunLock.acquire(options.cluster().stateDirectory())) {
            StateException held = assertThrows(StateException.class, () -> run(options));
            assertTrue(
                    held.getMessage()
                            .contains("process " + ProcessHandle.current().pid()),
                    held.getMessage());
            assertTrue(lock != null);
        }
        RestorePoint newest = RestorePoints.newest(options.cluster()).orElseThrow();
        damage(newest.directory());
        RestorePoint before = RestorePoints.newest(options.cluster()).orElseThrow();
        assertTrue(
                before.checkpointId() < newest.checkpointId(), newest + " is damaged, so " + before + " is not newer");

        printed.reset();
        FakeJobs.stepMillis(0);
        assertTrue(run(options));
        assertTrue(
                printed.toString(StandardCharsets.UTF_8).contains("resuming from checkpoint " + before.checkpointId()),
                printed::toString);
        assertArrayEquals(Files.readAllBytes(undisturbed.output()), Files.readAllBytes(options.output()));
        JsonNode summary = JSON.readTree(options.summary().orElseThrow().toFile());
        assertTrue(summary.path("restored_tokens").asLong() > 0, summary::toString);
        assertEquals(2, summary.path("starts").asInt());
        assertEquals(80, summary.path("completed").asInt());
    }

    @Test
    void anEmptyInputGivesAnEmptyOutput() throws Exception {
        BatchOptions options = options(FakeJobs.write(directory.resolve("in.jsonl"), List.of("", " ")), "out.jsonl", 0);
        assertTrue(run(options));
        assertEquals(0, Files.size(options.output()));
    }

    private boolean run(BatchOptions options) throws InterruptedException {
        return new BatchRun(options, out(), false, new StopSignal()).run();
    }

    private PrintStream out() {
        return new PrintStream(printed, true, StandardCharsets.UTF_8);
    }

    private BatchOptions options(Path input, String output, long seed) {
        Path file = directory.resolve(output);
        return new BatchOptions(
                input,
                file,
                Optional.of(directory.resolve(output + ".summary")),
                engine,
                TierOptions.NONE,
                new Sampling(),
                seed,
                new ClusterOptions(BatchOptions.defaultStateDirectory(file), 1, Duration.ofMillis(200), 0, 0),
                false);
    }

    private static void awaitCheckpoint(ClusterOptions options, long id, StopSignal stop) {
        try {
            while (RestorePoints.newest(options).map(RestorePoint::checkpointId).orElse(0L) < id) {
                Thread.sleep(20);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        stop.request();
    }

    private static void damage(Path checkpoint) throws Exception {
        try (Stream<Path> files = Files.list(checkpoint)) {
            Path state = files.filter(file -> !file.endsWith("_metadata"))
                    .findFirst()
                    .orElse(checkpoint.resolve("_metadata"));
            Files.write(state, new byte[1]);
        }
    }

    private static List<JsonNode> read(Path file) throws Exception {
        List<JsonNode> nodes = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            nodes.add(JSON.readTree(line));
        }
        return nodes;
    }
}
