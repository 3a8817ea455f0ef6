package io.millrace.tokenizer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Random;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TextStreamTest {
    private static Tokenizer tokenizer;

    @BeforeAll
    static void open() {
        tokenizer = Tokenizer.open(Path.of("../models/millrace-tiny")).orElseThrow();
    }

    @AfterAll
    static void close() {
        tokenizer.close();
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void streamsWhatDecodeGivesForRandomIds(long seed) {
        Random random = new Random(seed);
        for (int round = 0; round < 100; round++) {
            boolean skip = random.nextBoolean();
            TextStream stream = tokenizer.newTextStream(skip);
            // Low ids are single bytes, most of them no ASCII: ill-formed UTF-8 in every flavour.
            int bound = random.nextBoolean() ? tokenizer.vocabSize() + 5 : 260;
            int[] ids = random.ints(random.nextInt(60), 0, bound).toArray();
            String shown = "";
            for (int id : ids) {
                stream.append(id);
                String now = stream.text().toString();
                assertEquals(shown, now.substring(0, shown.length()), "seed " + seed + ": shown text changed");
                shown = now;
            }
            stream.finish();
            assertEquals(tokenizer.decode(ids, skip), stream.text().toString(), "seed " + seed + " round " + round);
        }
    }

    @Test
    void holdsBackAnIncompleteCharacter() {
        int[] ids = tokenizer.encode("a😀b", false, false);
        TextStream stream = tokenizer.newTextStream(true);
        for (int id : ids) {
            stream.append(id);
            assertFalse(stream.text().toString().contains("\uFFFD"), "after " + id + ": " + stream.text());
        }
        assertEquals("a😀b", stream.text().toString());
    }

    @Test
    void finishFlushesAnIncompleteCharacterAsOneReplacement() {
        int[] ids = tokenizer.encode("😀", false, false);
        TextStream stream = tokenizer.newTextStream(true);
        for (int i = 0; i < ids.length - 1; i++) {
            stream.append(ids[i]);
        }
        assertEquals("", stream.text().toString());
        stream.finish();
        assertEquals("\uFFFD", stream.text().toString());
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void decodesRandomBytesInPiecesAsAWhole(long seed) {
        Random random = new Random(seed);
        for (int round = 0; round < 500; round++) {
            byte[] bytes = "a\u00e9\u20ac\ud83d\ude00".repeat(3).getBytes(StandardCharsets.UTF_8);
            for (int i = random.nextInt(6); i > 0; i--) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
            }
            StringBuilder whole = new StringBuilder();
            Utf8Decoder decoder = new Utf8Decoder(whole);
            decoder.append(bytes);
            decoder.finish();
            StringBuilder pieces = new StringBuilder();
            Utf8Decoder piecewise = new Utf8Decoder(pieces);
            for (byte b : bytes) {
                piecewise.append(new byte[] {b});
            }
            piecewise.finish();
            assertEquals(whole.toString(), pieces.toString(), "seed " + seed);
        }
    }

    @Test
    void countsIllFormedPartsAsUnicodeSays() {
        assertEquals("\uFFFD\uFFFD\uFFFDa", decode(0xED, 0xA0, 0x80, 'a'));
        assertEquals("\uFFFDa", decode(0xF0, 0x9F, 0x98, 'a'));
        assertEquals("\uFFFD\uFFFD", decode(0xC0, 0x80));
        assertEquals("\uFFFD\u00e9", decode(0xE2, 0x82, 0xC3, 0xA9));
    }

    private static String decode(int... bytes) {
        StringBuilder out = new StringBuilder();
        Utf8Decoder decoder = new Utf8Decoder(out);
        for (int b : bytes) {
            decoder.append(new byte[] {(byte) b});
        }
        decoder.finish();
        return out.toString();
    }
}
