package io.millrace.connect.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.connect.WireRecords;
import io.millrace.connect.json.CompletionJson;
import io.millrace.connect.json.DeadLetterJson;
import io.millrace.connect.json.JsonFields;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.Source;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class JsonlMergeTest {
    @TempDir
    Path directory;

    private Path parts;
    private Path output;

    @BeforeEach
    void createDirectory() throws IOException {
        parts = Files.createDirectory(directory.resolve("parts"));
        output = directory.resolve("out.jsonl");
    }

    private static Source source(long line) {
        return new Source("in.jsonl", line, null, null, null);
    }

    private static String completion(String id, int index, long line) {
        Completion completion = WireRecords.smallCompletion(id, index, source(line));
        return new String(CompletionJson.toBytes(completion, JsonFields.REPRODUCIBLE), StandardCharsets.UTF_8);
    }

    private static String error(String id, long line) {
        DeadLetter letter = WireRecords.deadLetter(WireRecords.utf8("{\"bad"));
        letter.setRequestId(id);
        letter.setSource(source(line));
        return new String(DeadLetterJson.toBytes(letter), StandardCharsets.UTF_8);
    }

    private void part(String name, String... lines) throws IOException {
        Files.write(parts.resolve(name), List.of(lines));
    }

    private JsonlMerge.Result merge() throws IOException {
        return JsonlMerge.merge(parts, output);
    }

    @Test
    void linesAreOrderedBySourceLineThenIndexThenError() throws IOException {
        part("completions-b-1.jsonl", completion("x", 10, 2), completion("y", 0, 10));
        part("completions-a-0.jsonl", completion("x", 9, 2), completion("z", 0, 1));
        part("errors-c-0.jsonl", error("x", 2), error(null, 3));
        assertEquals(new JsonlMerge.Result(4, 2, 0), merge());
        assertEquals(
                List.of(
                        completion("z", 0, 1),
                        completion("x", 9, 2),
                        completion("x", 10, 2),
                        error("x", 2),
                        error(null, 3),
                        completion("y", 0, 10)),
                Files.readAllLines(output));
        assertEquals(new JsonlMerge.Result(4, 2, 0), merge());
    }

    @Test
    void filesInProgressAndStrangersAreIgnored() throws IOException {
        part("completions-a-0.jsonl", completion("x", 0, 1));
        part(".completions-a-1.jsonl.inprogress.77", completion("x", 0, 1), "{\"cut");
        part("_SUCCESS", "?");
        part("notes.txt", "?");
        Files.createDirectory(parts.resolve("completions-d.jsonl"));
        assertEquals(new JsonlMerge.Result(1, 0, 0), merge());
        try (Stream<Path> files = Files.list(directory)) {
            assertEquals(List.of(output, parts), files.sorted().toList());
        }
    }

    @Test
    void noPartsGiveAnEmptyFile() throws IOException {
        assertEquals(new JsonlMerge.Result(0, 0, 0), merge());
        assertEquals(0, Files.size(output));
        assertThrows(NotDirectoryException.class, () -> JsonlMerge.merge(directory.resolve("none"), output));
    }

    @Test
    void repeatedEqualLinesCountOnce() throws IOException {
        part("completions-a-0.jsonl", completion("x", 0, 1), completion("x", 1, 1));
        part("completions-b-0.jsonl", completion("x", 1, 1));
        part("errors-b-0.jsonl", error("y", 2), error("y", 2));
        assertEquals(new JsonlMerge.Result(2, 1, 2), merge());
        assertEquals(3, Files.readAllLines(output).size());
    }

    private void assertRefused(String... messages) throws IOException {
        Files.writeString(output, "kept\n");
        IOException e = assertThrows(IOException.class, this::merge);
        for (String message : messages) {
            assertTrue(e.getMessage().contains(message), e.getMessage());
        }
        assertEquals("kept\n", Files.readString(output));
        assertFalse(Files.exists(directory.resolve(".out.jsonl.merging")));
    }

    @Test
    void differingResultsOfOneSampleAreRefused() throws IOException {
        part("completions-a-0.jsonl", completion("x", 0, 1));
        part("completions-b-0.jsonl", completion("x", 0, 1).replace("\"ok\"", "\"no\""));
        assertRefused("sample 0 of line 1 of in.jsonl is there twice and differs", "completions-b-0.jsonl at byte 0");
    }

    @Test
    void oneRequestIdAndIndexFromTwoLinesIsRefused() throws IOException {
        part("completions-a-0.jsonl", completion("x", 0, 1), completion("x", 0, 4));
        assertRefused("request_id \"x\" has two completions of index 0", "line 4 of in.jsonl");
    }

    @Test
    void damagedPartsAreRefused() throws IOException {
        part("completions-a-0.jsonl", completion("x", 0, 1), "{\"request_id\":\"y\"");
        assertRefused("completions-a-0.jsonl is damaged at byte "
                + (completion("x", 0, 1).length() + 1));
        part("completions-a-0.jsonl", "{\"request_id\":\"y\",\"index\":0}");
        assertRefused("not a completion or an error");
        Files.writeString(parts.resolve("completions-a-0.jsonl"), completion("x", 0, 1));
        assertRefused("ends in the middle of a line");
    }

    @Test
    void morePartsThanMayBeOpenAtOnce() throws IOException {
        long seed = 11;
        List<String> expected = new ArrayList<>();
        for (int line = 1; line <= 2000; line++) {
            expected.add(completion("r" + line, 0, line));
        }
        List<String> shuffled = new ArrayList<>(expected);
        Collections.shuffle(shuffled, new Random(seed));
        for (int i = 0; i < 200; i++) {
            part(
                    "completions-" + i + "-0.jsonl",
                    shuffled.subList(i * 10, i * 10 + 10).toArray(String[]::new));
        }
        assertEquals(new JsonlMerge.Result(2000, 0, 0), merge());
        assertEquals(expected, Files.readAllLines(output));
    }
}
