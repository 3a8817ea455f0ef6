package io.millrace.connect.json;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.Message;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Sampling;
import io.millrace.schemas.Source;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.avro.Schema;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PromptJsonTest {
    private static final Source SOURCE = new Source("in.jsonl", 7L, null, null, null);

    private static PromptEnvelope parse(String json) {
        return parse(json.getBytes(StandardCharsets.UTF_8));
    }

    private static PromptEnvelope parse(byte[] bytes) {
        return PromptJson.parse(bytes, SOURCE, List.of());
    }

    private static Prompt good(String json) {
        PromptEnvelope envelope = parse(json);
        assertNull(envelope.getError(), () -> String.valueOf(envelope.getError()));
        assertEquals(envelope.getPrompt().getRequestId(), envelope.getRequestId());
        return envelope.getPrompt();
    }

    private static ErrorInfo bad(String json) {
        PromptEnvelope envelope = parse(json);
        assertNull(envelope.getPrompt());
        assertEquals(ByteBuffer.wrap(json.getBytes(StandardCharsets.UTF_8)), envelope.getOriginal());
        assertEquals(SOURCE, envelope.getSource());
        return envelope.getError();
    }

    @Test
    void everyFieldOfTheSchemaIsRead() throws IOException {
        Prompt prompt;
        try (InputStream in = getClass().getResourceAsStream("/json/prompt-all-fields.json")) {
            prompt = good(new String(in.readAllBytes(), StandardCharsets.UTF_8));
        }
        // The three inputs exclude each other; the file has messages.
        for (Schema.Field field : Prompt.getClassSchema().getFields()) {
            boolean otherInput = List.of("prompt", "prompt_token_ids").contains(field.name());
            assertEquals(otherInput, prompt.get(field.pos()) == null, field.name());
        }
        Sampling sampling = prompt.getSampling();
        for (Schema.Field field : Sampling.getClassSchema().getFields()) {
            assertNotNull(sampling.get(field.pos()), field.name());
        }
        assertEquals(
                List.of(new Message("system", "Be brief."), new Message("user", "Grüße 👋")), prompt.getMessages());
        assertEquals(8, sampling.getN());
        assertEquals(0.7, sampling.getTemperature());
        assertEquals(1.0, sampling.getTopP());
        assertEquals(List.of("\n\n", "END"), sampling.getStop());
        assertEquals(Long.MIN_VALUE, sampling.getSeed());
        assertEquals(Map.of("50256", -100.0, "0", 1.5), sampling.getLogitBias());
        assertEquals(-3, prompt.getPriority());
        assertEquals("{\"a\" : [1.50, 1e400, \"\\u00e9\"],\"a\":null}", prompt.getMetadata());
        assertEquals("\"4\\u0032\"", prompt.getGroundTruth());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"null", "true", "12", "-1.50E+3", "\"a b\"", "[]", "[1, {\"x\":[ ]} ]", "{}", "{\"b\": \"}\"}"})
    void metadataIsKeptAsItStands(String json) {
        String kept = "null".equals(json) ? null : json;
        assertEquals(
                kept,
                good("{\"prompt\":\"x\",\"metadata\": " + json + " , \"group_id\":\"g\"}")
                        .getMetadata());
        assertEquals(kept, good("{\"prompt\":\"x\",\"metadata\":" + json + "}").getMetadata());
    }

    @Test
    void metadataIsKeptBeyondTheParsersBuffers() {
        String padding = "ä".repeat(70_000);
        String metadata = "{\"deep\": \"" + padding + "\", \"n\": 1.250}";
        Prompt prompt = good("{\"prompt\":\"" + padding + "\",\"metadata\":" + metadata + ",\"ground_truth\":7 }");
        assertEquals(metadata, prompt.getMetadata());
        assertEquals("7", prompt.getGroundTruth());
        assertEquals(padding, prompt.getPrompt());
    }

    @Test
    void nullMeansAbsent() {
        Prompt prompt = good("{\"request_id\":null,\"prompt\":\"\",\"messages\":null,\"sampling\":{\"n\":null,"
                + "\"structured_outputs\":null},\"metadata\":null}");
        assertEquals("", prompt.getPrompt());
        assertNull(prompt.getMessages());
        assertNull(prompt.getRequestId());
        assertNull(prompt.getSampling().getN());
        assertNull(prompt.getMetadata());
    }

    @Test
    void oneStopStringIsAListOfOne() {
        assertEquals(
                List.of("END"),
                good("{\"prompt\":\"x\",\"sampling\":{\"stop\":\"END\"}}")
                        .getSampling()
                        .getStop());
    }

    @Test
    void byteOrderMarkAndSpaceAroundAreAllowed() {
        assertEquals("x", good("\uFEFF {\"prompt\":\"x\"} \r").getPrompt());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', textBlock = """
            {"prompt":"x","temprature":1}                            | unknown_field      | did you mean "sampling.temperature"?
            {"prompt":"x","sampling":{"temprature":1}}               | unknown_field      | "sampling.temprature"; did you mean "temperature"?
            {"prompt":"x","sampling":{"topP":1}}                     | unknown_field      | did you mean "top_p"?
            {"prompt":"x","temperature":1}                           | unknown_field      | did you mean "sampling.temperature"?
            {"prompt":"x","sampling":{"priority":1}}                 | unknown_field      | did you mean "priority"?
            {"prompt":"x","sampling":{"max_new_tokens":1}}           | unknown_field      | did you mean "sampling.max_tokens"?
            {"promt":"x"}                                            | unknown_field      | did you mean "prompt"?
            {"prompt":"x","zzzzzz":null}                             | unknown_field      | there is no field "zzzzzz"
            {"messages":[{"role":"u","content":"x","contents":1}]}   | unknown_field      | "messages[0].contents"; did you mean "content"?
            {"custom_id":"x","body":{}}                              | unsupported_field  | OpenAI batch lines
            {"prompt":"x","sampling":{"structured_outputs":{}}}      | unsupported_field  | not supported yet
            {"prompt":"x","prompt":"y"}                              | duplicate_field    | "prompt"
            {"prompt":"x","sampling":{"n":1,"n":null}}               | duplicate_field    | "sampling.n"
            {"prompt":"x","sampling":{"logit_bias":{"1":1,"1":2}}}   | duplicate_field    | "sampling.logit_bias.1"
            {"request_id":"a"}                                       | missing_field      | no prompt, messages or prompt_token_ids
            {"messages":[{"role":"user"}]}                           | missing_field      | messages[0] has no content
            {"messages":[{"role":"u","content":"x"},{"content":""}]} | missing_field      | messages[1] has no role
            {"prompt":"x","messages":[{"role":"u","content":"y"}]}   | conflicting_fields | prompt and messages
            {"prompt":"x","prompt_token_ids":[1]}                    | conflicting_fields | prompt and prompt_token_ids
            {"messages":[]}                                          | invalid_field      | messages is an empty array
            {"prompt_token_ids":[]}                                  | invalid_field      | prompt_token_ids is an empty array
            {"prompt_token_ids":[1,"2"]}                             | invalid_field      | prompt_token_ids[1] must be a 32-bit integer, found a string
            {"prompt_token_ids":[1,2147483648]}                      | invalid_field      | prompt_token_ids[1] is 2147483648
            {"prompt_token_ids":[1,2.0]}                             | invalid_field      | found the number 2.0
            {"prompt_token_ids":{}}                                  | invalid_field      | must be an array of integers, found an object
            {"prompt":1}                                             | invalid_field      | prompt must be a string, found the number 1
            {"prompt":"x","request_id":5}                            | invalid_field      | request_id must be a string
            {"prompt":"x","request_id":""}                           | invalid_field      | request_id is empty
            {"prompt":"\\ud800"}                                     | invalid_field      | half of a surrogate pair
            {"prompt":"x","sampling":{"top_p":"0.5"}}                | invalid_field      | sampling.top_p must be a number, found a string
            {"prompt":"x","sampling":{"top_p":1e999}}                | invalid_field      | sampling.top_p is 1e999
            {"prompt":"x","sampling":{"n":1.5}}                      | invalid_field      | sampling.n must be a 32-bit integer, found the number 1.5
            {"prompt":"x","sampling":{"n":-2147483649}}              | invalid_field      | -2147483648 to 2147483647
            {"prompt":"x","sampling":{"seed":9223372036854775808}}   | invalid_field      | sampling.seed is 9223372036854775808
            {"prompt":"x","sampling":{"ignore_eos":"yes"}}           | invalid_field      | must be true or false
            {"prompt":"x","sampling":{"logprobs":true}}              | invalid_field      | sampling.logprobs must be a 32-bit integer, found true
            {"prompt":"x","sampling":{"stop":["a",null]}}            | invalid_field      | sampling.stop[1] must be a string, found null
            {"prompt":"x","sampling":{"logit_bias":{"cat":1}}}       | invalid_field      | sampling.logit_bias.cat
            {"prompt":"x","sampling":{"logit_bias":{"9999999999":1}}}| invalid_field      | not a token id
            {"prompt":"x","sampling":[]}                             | invalid_field      | sampling must be an object, found an array
            {"messages":["hello"]}                                   | invalid_field      | messages[0] must be an object
            {"messages":[{"role":"u","content":[]}]}                 | invalid_field      | messages[0].content must be a string, found an array
            {"prompt":"x","sampling":{"top_p":NaN}}                  | invalid_json       | line 1, column
            {"prompt":"x"                                            | invalid_json       | line 1, column
            {"prompt":"x",}                                          | invalid_json       | line 1, column 15
            {'prompt':"x"}                                           | invalid_json       | line 1, column 2
            {"prompt":"x"} {}                                        | invalid_json       | goes on after its object, at column 16
            ["prompt"]                                               | invalid_json       | found an array
            "prompt"                                                 | invalid_json       | found a string
            ``                                                       | invalid_json       | found an empty record
            """)
    void errorsSayWhatAndWhere(String json, String code, String message) {
        ErrorInfo error = bad(json);
        assertEquals(code, error.getCode(), error::toString);
        assertTrue(error.getMessage().contains(message), error::toString);
        assertTrue(error.getRemedy().endsWith("."), error::toString);
    }

    @Test
    void invalidUtf8IsPlaced() {
        byte[] bytes = "{\"request_id\":\"a\",\n\"prompt\":\"xy\"}".getBytes(StandardCharsets.UTF_8);
        bytes[bytes.length - 4] = (byte) 0xff;
        PromptEnvelope envelope = parse(bytes);
        assertEquals(ErrorCodes.INVALID_UTF8, envelope.getError().getCode());
        assertEquals(
                "not UTF-8: byte 0xff at byte offset 29 (line 2, column 11)",
                envelope.getError().getMessage());
        assertEquals("a", envelope.getRequestId());
    }

    @Test
    void replacementCharactersOfTheSenderAreText() {
        assertEquals("a\uFFFD", good("{\"prompt\":\"a\uFFFD\"}").getPrompt());
    }

    @Test
    void requestIdIsFoundInBadRecords() {
        assertEquals("a", parse("{\"request_id\":\"a\",\"prompt\":\"cut he").getRequestId());
        assertEquals(
                "a",
                parse("{\"zzz\":{\"request_id\":\"b\"},\"request_id\":\"a\"}").getRequestId());
        assertNull(parse("{\"prompt\":{\"request_id\":\"b\"}}").getRequestId());
        assertNull(parse("{\"request_id\":\"\",\"prompt\":\"x\"}").getRequestId());
        assertNull(parse("nonsense").getRequestId());
    }

    @Test
    void deepNestingIsAnErrorNotAStackOverflow() {
        String deep = "[".repeat(100_000) + "]".repeat(100_000);
        assertEquals(
                ErrorCodes.INVALID_JSON,
                bad("{\"prompt\":\"x\",\"metadata\":" + deep + "}").getCode());
    }

    @Test
    void hugeNumbersAreRefusedWithoutConversion() {
        String digits = "9".repeat(2_000_000);
        ErrorInfo error = bad("{\"prompt\":\"x\",\"sampling\":{\"n\":" + digits + "}}");
        assertEquals(ErrorCodes.INVALID_FIELD, error.getCode());
        assertTrue(error.getMessage().length() < 300);
    }

    @Test
    void megabytesOfPromptAreFine() {
        String text = "wörd ".repeat(1_000_000);
        assertEquals(text, good("{\"prompt\":\"" + text + "\"}").getPrompt());
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void mutatedBytesNeverThrow(long seed) throws IOException {
        byte[] original;
        try (InputStream in = getClass().getResourceAsStream("/json/prompt-all-fields.json")) {
            original = in.readAllBytes();
        }
        Random random = new Random(seed);
        for (int i = 0; i < 3000; i++) {
            byte[] mutated = mutate(original, random);
            PromptEnvelope envelope = parse(mutated);
            String context = "seed " + seed + ", case " + i;
            assertTrue((envelope.getPrompt() == null) != (envelope.getError() == null), context);
            assertEquals(ByteBuffer.wrap(mutated), envelope.getOriginal(), context);
            if (envelope.getError() != null) {
                assertTrue(!envelope.getError().getCode().equals(ErrorCodes.PARSER_DEFECT), context);
            }
        }
    }

    private static byte[] mutate(byte[] original, Random random) {
        byte[] bytes = original.clone();
        int numMutations = 1 + random.nextInt(3);
        for (int i = 0; i < numMutations && bytes.length > 0; i++) {
            int at = random.nextInt(bytes.length);
            switch (random.nextInt(4)) {
                case 0 -> bytes[at] = (byte) random.nextInt(256);
                case 1 -> bytes[at] = (byte) "{}[]\",:\\0e-nt".charAt(random.nextInt(13));
                case 2 -> bytes = Arrays.copyOf(bytes, at);
                default -> {
                    int to = Math.min(bytes.length, at + 1 + random.nextInt(20));
                    byte[] shorter = Arrays.copyOf(bytes, bytes.length - (to - at));
                    System.arraycopy(bytes, to, shorter, at, bytes.length - to);
                    bytes = shorter;
                }
            }
        }
        return bytes;
    }
}
