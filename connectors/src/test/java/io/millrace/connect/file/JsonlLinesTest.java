package io.millrace.connect.file;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonlLinesTest {
    private static final int MAX_LINE_BYTES = 100_000;

    @TempDir
    Path directory;

    private JsonlSplit split(byte[] content) throws IOException {
        Path file = Files.write(directory.resolve("in.jsonl"), content);
        return new JsonlSplit(file.toString(), content.length, 0, 0);
    }

    private static List<String> lines(JsonlSplit split, int maxLineBytes) throws IOException {
        List<String> all = new ArrayList<>();
        try (JsonlLines lines = new JsonlLines(split, maxLineBytes)) {
            while (lines.next()) {
                all.add(lines.numLinesRead() + ":" + new String(lines.bytes()) + (lines.isTooLong() ? "!" : "")
                        + (lines.isBlank() ? "_" : ""));
            }
            assertFalse(lines.next());
        }
        return all;
    }

    @Test
    void endsOfLinesAndOfTheFile() throws IOException {
        assertEquals(List.of(), lines(split(new byte[0]), 10));
        assertEquals(List.of("1:a", "2:b"), lines(split("a\nb".getBytes()), 10));
        assertEquals(List.of("1:a", "2:b"), lines(split("a\r\nb\r\n".getBytes()), 10));
        assertEquals(List.of("1:_", "2: \t_", "3:a", "4:_"), lines(split("\n \t\na\n\r\n".getBytes()), 10));
    }

    @Test
    void aLineMayHaveTheLimitAndNotMore() throws IOException {
        assertEquals(List.of("1:abc", "2:abc"), lines(split("abc\r\nabc".getBytes()), 3));
        assertEquals(List.of("1:abcd!", "2:a"), lines(split("abcd\na".getBytes()), 3));
        try (JsonlLines lines = new JsonlLines(split((("x".repeat(200_000)) + "\r\ny").getBytes()), MAX_LINE_BYTES)) {
            assertTrue(lines.next());
            assertTrue(lines.isTooLong());
            assertEquals(200_001, lines.lineBytes());
            assertEquals(4096, lines.bytes().length);
            assertEquals(200_002, lines.offsetBytes());
            assertTrue(lines.next());
            assertArrayEquals("y".getBytes(), lines.bytes());
        }
    }

    @Test
    void aChangedFileIsRefused() throws IOException {
        JsonlSplit split = split("a\nb\n".getBytes());
        Files.writeString(Path.of(split.file()), "a\nb\nc\n");
        IOException e = assertThrows(IOException.class, () -> new JsonlLines(split, 10));
        assertTrue(e.getMessage().contains("it had 4 bytes and has 6 now"), e.getMessage());
        Files.delete(Path.of(split.file()));
        assertThrows(IOException.class, () -> new JsonlLines(split, 10));
        assertThrows(IOException.class, () -> JsonlLines.checkedLength(directory.toString()));
    }

    /** Against the naive model: split the whole content at line feeds. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5})
    void anyContentFromAnyPosition(long seed) throws IOException {
        Random random = new Random(seed);
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        List<byte[]> expected = new ArrayList<>();
        int numLines = 30;
        for (int i = 0; i < numLines; i++) {
            byte[] line = new byte[random.nextInt(4) == 0 ? 60_000 + random.nextInt(10_000) : random.nextInt(50)];
            for (int j = 0; j < line.length; j++) {
                line[j] = (byte) ('a' + random.nextInt(26));
            }
            expected.add(line);
            content.write(line);
            content.write('\n');
        }
        JsonlSplit split = split(content.toByteArray());
        for (int resumeAfter = 0; resumeAfter < numLines; resumeAfter += 1 + random.nextInt(5)) {
            String context = "seed " + seed + ", resumed after line " + resumeAfter;
            JsonlSplit resumed = split;
            try (JsonlLines lines = new JsonlLines(split, MAX_LINE_BYTES)) {
                for (int i = 0; i < resumeAfter; i++) {
                    assertTrue(lines.next(), context);
                }
                resumed = new JsonlSplit(split.file(), split.fileBytes(), lines.offsetBytes(), lines.numLinesRead());
            }
            JsonlSplit.Serializer serializer = new JsonlSplit.Serializer();
            resumed = serializer.deserialize(serializer.getVersion(), serializer.serialize(resumed));
            try (JsonlLines lines = new JsonlLines(resumed, MAX_LINE_BYTES)) {
                for (int i = resumeAfter; i < numLines; i++) {
                    assertTrue(lines.next(), context);
                    assertEquals(i + 1, lines.numLinesRead(), context);
                    assertTrue(Arrays.equals(expected.get(i), lines.bytes()), context);
                }
                assertFalse(lines.next(), context);
            }
        }
    }
}
