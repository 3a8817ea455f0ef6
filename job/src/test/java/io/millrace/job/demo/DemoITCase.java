package io.millrace.job.demo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.engine.EngineConfig;
import io.millrace.job.batch.BatchOptions;
import io.millrace.job.batch.BatchRun;
import io.millrace.job.cluster.ClusterOptions;
import io.millrace.job.cluster.StopSignal;
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
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The demo model on the CPU, end to end. */
@Timeout(300)
class DemoITCase {

    private static final Path MODEL = Path.of("..", "models", "millrace-tiny");
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path directory;

    private final ByteArrayOutputStream printed = new ByteArrayOutputStream();
    private final PrintStream out = new PrintStream(printed, true, StandardCharsets.UTF_8);

    @Test
    void everyPromptOfTheDemoComesOutOnce() throws Exception {
        EngineConfig engine = EngineConfig.of(MODEL.toAbsolutePath().normalize().toString());
        assertTrue(
                new DemoRun(directory, engine, out, out, false, new StopSignal()).run(),
                () -> printed.toString(StandardCharsets.UTF_8));
        String text = printed.toString(StandardCharsets.UTF_8);
        assertTrue(text.contains("316 prompts in = 310 completed (730 completions) + 6 dead-lettered"), text);
        assertTrue(text.contains("pass@8 1.000"), text);
        assertEquals(
                730, Files.readAllLines(directory.resolve("completions.jsonl")).size());
    }

    @Test
    void aBatchGivesTheReferenceAnswers() throws Exception {
        List<JsonNode> expected = new ArrayList<>();
        List<String> lines = new ArrayList<>();
        for (String line : Files.readAllLines(MODEL.resolve("expected.jsonl"))) {
            JsonNode chat = JSON.readTree(line);
            expected.add(chat);
            lines.add("{\"request_id\": %s, \"messages\": %s}".formatted(chat.get("request_id"), chat.get("messages")));
        }
        Path input = Files.write(directory.resolve("in.jsonl"), lines);
        Path output = directory.resolve("out.jsonl");
        BatchOptions options = new BatchOptions(
                input,
                output,
                Optional.empty(),
                EngineConfig.of(MODEL.toAbsolutePath().normalize().toString()),
                TierOptions.NONE,
                Sampling.newBuilder().setTemperature(0.0).build(),
                0,
                new ClusterOptions(BatchOptions.defaultStateDirectory(output), 1, Duration.ofSeconds(1), 0, 0),
                false);
        assertTrue(
                new BatchRun(options, out, false, new StopSignal()).run(),
                () -> printed.toString(StandardCharsets.UTF_8));

        List<String> results = Files.readAllLines(output);
        assertEquals(expected.size(), results.size());
        int numEqual = 0;
        for (int i = 0; i < results.size(); i++) {
            JsonNode result = JSON.readTree(results.get(i));
            assertEquals(expected.get(i).get("request_id"), result.get("request_id"), "in the input's order");
            numEqual += expected.get(i).get("greedy_text").equals(result.get("text")) ? 1 : 0;
        }
        assertTrue(
                numEqual >= 0.98 * results.size(),
                numEqual + " of " + results.size() + " answers equal the reference's");
    }
}
