package io.millrace.connect.avro;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.connect.WireRecords;
import io.millrace.connect.json.ErrorCodes;
import io.millrace.connect.json.PromptJson;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.Message;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Sampling;
import io.millrace.schemas.Source;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.avro.Schema;
import org.apache.avro.SchemaBuilder;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.message.BinaryMessageEncoder;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AvroTest {
    private static final Source SOURCE = new Source(null, null, "prompts", 1, 2L);
    private static final PromptAvro PARSER = new PromptAvro(List.of());

    private static byte[] resource(String name) throws IOException {
        try (InputStream in = AvroTest.class.getResourceAsStream(name)) {
            return in.readAllBytes();
        }
    }

    private static String goldenHex(String name) throws IOException {
        return new String(resource("/avro/" + name), StandardCharsets.UTF_8).replaceAll("\\s", "");
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static byte[] encoded(Prompt prompt) throws IOException {
        return bytes(Prompt.getEncoder().encode(prompt));
    }

    private static Prompt fullPrompt() throws IOException {
        PromptEnvelope envelope = PromptJson.parse(resource("/json/prompt-all-fields.json"), SOURCE, List.of());
        Prompt prompt = envelope.getPrompt();
        // A map's order is not part of a record; one entry makes the bytes certain.
        prompt.getSampling().setLogitBias(Map.of("0", 1.5));
        return prompt;
    }

    private static PromptEnvelope parse(byte[] message) {
        return PARSER.parse(message, SOURCE, List.of());
    }

    /** The bytes that are on topics today. Written anew with -Dmillrace.golden.write=true, after a change of schema. */
    private static void assertGolden(String name, byte[] bytes) throws IOException {
        String hex = HexFormat.of().formatHex(bytes);
        if (Boolean.getBoolean("millrace.golden.write")) {
            Files.writeString(Path.of("src/test/resources/avro", name), hex + "\n");
            return;
        }
        assertEquals(goldenHex(name), hex);
    }

    @Test
    void goldenBytes() throws IOException {
        assertGolden("prompt.hex", encoded(fullPrompt()));
        assertGolden("completion.hex", ResultAvro.toBytes(WireRecords.fullCompletion()));
        assertGolden(
                "dead-letter.hex",
                ResultAvro.toBytes(WireRecords.deadLetter(WireRecords.utf8("{\"promt\": \"Grüße\"}"))));
    }

    @Test
    void everyRecordComesBackAsItWas() throws IOException {
        PromptEnvelope envelope = parse(HexFormat.of().parseHex(goldenHex("prompt.hex")));
        assertNull(envelope.getError());
        assertEquals(fullPrompt(), envelope.getPrompt());
        assertEquals("r-1", envelope.getRequestId());
        assertEquals(SOURCE, envelope.getSource());
        Completion completion = WireRecords.fullCompletion();
        assertEquals(completion, Completion.getDecoder().decode(ResultAvro.toBytes(completion)));
        completion.setStopReason(13);
        assertEquals(completion, Completion.getDecoder().decode(ResultAvro.toBytes(completion)));
        DeadLetter letter = WireRecords.deadLetter(new byte[] {(byte) 0xff});
        assertEquals(letter, DeadLetter.getDecoder().decode(ResultAvro.toBytes(letter)));
    }

    private static void assertInvalid(byte[] message, String code, String text) {
        PromptEnvelope envelope = parse(message);
        assertNull(envelope.getPrompt());
        assertEquals(
                code, envelope.getError().getCode(), () -> envelope.getError().toString());
        assertTrue(
                envelope.getError().getMessage().contains(text),
                () -> envelope.getError().toString());
        assertEquals(ByteBuffer.wrap(message), envelope.getOriginal());
    }

    @Test
    void foreignBytesAreErrors() throws IOException {
        byte[] good = encoded(fullPrompt());
        assertInvalid(new byte[0], ErrorCodes.INVALID_AVRO, "marker");
        assertInvalid(WireRecords.utf8("{\"prompt\":\"x\"}"), ErrorCodes.INVALID_AVRO, "marker");
        byte[] otherSchema = good.clone();
        otherSchema[2] ^= 1;
        assertInvalid(otherSchema, ErrorCodes.INVALID_AVRO, "fingerprint");
        assertInvalid(ResultAvro.toBytes(WireRecords.fullCompletion()), ErrorCodes.INVALID_AVRO, "fingerprint");
        assertInvalid(Arrays.copyOf(good, good.length - 1), ErrorCodes.INVALID_AVRO, "does not follow its schema");
        assertInvalid(Arrays.copyOf(good, good.length + 1), ErrorCodes.INVALID_AVRO, "1 bytes too many");
        byte[] badText = good.clone();
        badText[12] = (byte) 0xff;
        assertInvalid(badText, ErrorCodes.INVALID_AVRO, "not UTF-8 in request_id");
    }

    @Test
    void announcedLengthsAreNotBelieved() throws IOException {
        // request_id: the union's second branch, then a string of 2 GiB.
        byte[] huge = Arrays.copyOf(encoded(fullPrompt()), 16);
        System.arraycopy(HexFormat.of().parseHex("02fcffffff0f"), 0, huge, 10, 6);
        assertInvalid(huge, ErrorCodes.INVALID_AVRO, "2147483646 bytes announced, 0 left in request_id");
    }

    @Test
    void promptsFollowTheSameRulesAsInJson() throws IOException {
        Prompt prompt = new Prompt();
        prompt.setRequestId("a");
        assertInvalid(encoded(prompt), ErrorCodes.MISSING_FIELD, "no prompt, messages");
        assertEquals("a", parse(encoded(prompt)).getRequestId());
        prompt.setPrompt("x");
        prompt.setMessages(List.of(new Message("user", "y")));
        assertInvalid(encoded(prompt), ErrorCodes.CONFLICTING_FIELDS, "prompt and messages");
        prompt.setMessages(null);
        prompt.setMetadata("{a}");
        assertInvalid(encoded(prompt), ErrorCodes.INVALID_FIELD, "metadata is not JSON text");
        prompt.setMetadata("1 2");
        assertInvalid(encoded(prompt), ErrorCodes.INVALID_FIELD, "more than one JSON value");
        prompt.setMetadata("");
        assertInvalid(encoded(prompt), ErrorCodes.INVALID_FIELD, "metadata is empty text");
        prompt.setMetadata(null);
        prompt.setSampling(new Sampling());
        prompt.getSampling().setTopP(Double.NaN);
        assertInvalid(encoded(prompt), ErrorCodes.INVALID_FIELD, "sampling.top_p is NaN");
        prompt.getSampling().setTopP(null);
        prompt.getSampling().setLogitBias(Map.of("-1", 0.0));
        assertInvalid(encoded(prompt), ErrorCodes.INVALID_FIELD, "sampling.logit_bias.-1");
    }

    @Test
    void knownSchemasOfOtherWritersAreRead() throws IOException {
        Schema writer = SchemaBuilder.record("io.millrace.schemas.Prompt")
                .fields()
                .requiredString("prompt")
                .requiredString("team")
                .endRecord();
        GenericRecord record = new GenericData.Record(writer);
        record.put("prompt", "hello");
        record.put("team", "x");
        byte[] message = bytes(new BinaryMessageEncoder<GenericRecord>(GenericData.get(), writer).encode(record));
        assertInvalid(message, ErrorCodes.INVALID_AVRO, "fingerprint");
        Prompt prompt = new PromptAvro(List.of(writer))
                .parse(message, SOURCE, List.of())
                .getPrompt();
        assertEquals("hello", prompt.getPrompt());
        assertNull(prompt.getRequestId());
    }

    @Test
    void schemasThatAreNoPromptsAreRefused() {
        Schema writer = SchemaBuilder.record("io.millrace.schemas.Prompt")
                .fields()
                .requiredInt("prompt")
                .endRecord();
        assertThrows(IllegalArgumentException.class, () -> new PromptAvro(List.of(writer)));
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4})
    void mutatedBytesNeverThrow(long seed) throws IOException {
        byte[] good = encoded(fullPrompt());
        Random random = new Random(seed);
        for (int i = 0; i < 5000; i++) {
            byte[] mutated = Arrays.copyOf(good, random.nextInt(10) == 0 ? random.nextInt(good.length) : good.length);
            for (int j = 0; j <= random.nextInt(3) && mutated.length > 10; j++) {
                mutated[10 + random.nextInt(mutated.length - 10)] = (byte) random.nextInt(256);
            }
            PromptEnvelope envelope = parse(mutated);
            String context = "seed " + seed + ", case " + i;
            assertTrue((envelope.getPrompt() == null) != (envelope.getError() == null), context);
            if (envelope.getError() != null) {
                assertNotEquals(ErrorCodes.PARSER_DEFECT, envelope.getError().getCode(), context);
            }
        }
    }
}
