package io.millrace.connect.json;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.millrace.connect.WireRecords;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.Source;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

class ResultJsonTest {
    private static String golden(String name) throws IOException {
        try (InputStream in = ResultJsonTest.class.getResourceAsStream("/json/" + name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
        }
    }

    private static String json(Completion completion, JsonFields fields) {
        return new String(CompletionJson.toBytes(completion, fields), StandardCharsets.UTF_8);
    }

    private static String json(DeadLetter letter) {
        return new String(DeadLetterJson.toBytes(letter), StandardCharsets.UTF_8);
    }

    @Test
    void goldenCompletions() throws IOException {
        assertEquals(golden("completion-full.json"), json(WireRecords.fullCompletion(), JsonFields.ALL));
        assertEquals(
                golden("completion-reproducible.json"), json(WireRecords.fullCompletion(), JsonFields.REPRODUCIBLE));
        Source source = new Source(null, null, "prompts", 0, 42L);
        assertEquals(
                golden("completion-small.json"), json(WireRecords.smallCompletion("r", 0, source), JsonFields.ALL));
    }

    @Test
    void goldenDeadLetters() throws IOException {
        byte[] text = WireRecords.utf8("{\"promt\": \"Grüße\"}");
        assertEquals(golden("dead-letter.json"), json(WireRecords.deadLetter(text)));
        assertEquals(golden("dead-letter-bytes.json"), json(WireRecords.deadLetter(new byte[] {(byte) 0xff, 0, 1})));
    }

    @Test
    void stopReasonMayBeATokenId() {
        Completion completion = WireRecords.smallCompletion("r", 0, new Source());
        completion.setStopReason(13);
        assertEquals(true, json(completion, JsonFields.ALL).contains("\"stop_reason\":13,"));
    }

    @Test
    void aModelWithoutTokenizerWritesNullText() {
        Completion completion = WireRecords.smallCompletion("r", 0, new Source());
        completion.setText(null);
        assertEquals(true, json(completion, JsonFields.ALL).contains("\"text\":null,"));
    }

    @Test
    void whatIsNoUnicodeIsRepaired() {
        Completion completion = WireRecords.smallCompletion("r", 0, new Source());
        completion.setText("a\ud83d b\ude00 \ud83d\ude00");
        assertEquals(true, json(completion, JsonFields.ALL).contains("\"text\":\"a\uFFFD b\uFFFD \ud83d\ude00\","));
    }

    /** The shortest decimal is not what every JDK's own conversion gives. */
    @Test
    void numbersAreTheirShortestDecimals() {
        Completion completion = WireRecords.smallCompletion("r", 0, new Source());
        completion.setCumulativeLogprob(2.0E-3);
        assertEquals(true, json(completion, JsonFields.ALL).contains("\"cumulative_logprob\":0.002,"));
        completion.setCumulativeLogprob(-2.2E-322);
        assertEquals(true, json(completion, JsonFields.ALL).contains("\"cumulative_logprob\":-2.2E-322,"));
        completion.setCumulativeLogprob(Double.NEGATIVE_INFINITY);
        assertEquals(true, json(completion, JsonFields.ALL).contains("\"cumulative_logprob\":-9999.0,"));
    }

    @Test
    void writingLeavesTheOriginalUnread() {
        DeadLetter letter = WireRecords.deadLetter(WireRecords.utf8("abc"));
        String first = json(letter);
        assertEquals(first, json(letter));
        assertEquals(3, letter.getOriginal().remaining());
        letter.setOriginal(ByteBuffer.wrap(WireRecords.utf8("xabcx"), 1, 3).slice());
        assertEquals(first, json(letter));
    }

    @Test
    void noLineEndsInsideALine() {
        for (JsonFields fields : JsonFields.values()) {
            assertFalse(json(WireRecords.fullCompletion(), fields).matches("(?s).*[\\n\\r].*"));
        }
    }

    @Test
    void nearestNames() {
        List<String> names = List.of("top_p", "top_k", "temperature", "n");
        assertEquals("top_p", NearestName.of("topP", names).orElseThrow());
        assertEquals("temperature", NearestName.of("temprature", names).orElseThrow());
        assertEquals("temperature", NearestName.of("tepmerature", names).orElseThrow());
        assertEquals("n", NearestName.of("N", names).orElseThrow());
        assertEquals(true, NearestName.of("stream", names).isEmpty());
        assertEquals(true, NearestName.of("x".repeat(1000), names).isEmpty());
        assertEquals(1, NearestName.distance("ab", "ba"));
        assertEquals(3, NearestName.distance("kitten", "sitting"));
    }
}
