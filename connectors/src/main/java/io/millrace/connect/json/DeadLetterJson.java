package io.millrace.connect.json;

import io.millrace.schemas.DeadLetter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Writes dead letters as JSON: one line without its end. The original bytes stand under {@code original} as text where
 * they are UTF-8, else under {@code original_base64}. Stateless; any thread.
 */
public final class DeadLetterJson {
    private DeadLetterJson() {}

    /** The dead letter's line. */
    public static byte[] toBytes(DeadLetter letter) {
        try {
            JsonRecordWriter writer = new JsonRecordWriter();
            writer.text("request_id", letter.getRequestId());
            writer.source(letter.getSource());
            writer.error(letter.getError());
            writer.ints("emitted_indices", letter.getEmittedIndices());
            writeOriginal(writer, letter.getOriginal());
            return writer.finish();
        } catch (IOException e) {
            throw new UncheckedIOException("writing to memory failed", e);
        }
    }

    private static void writeOriginal(JsonRecordWriter writer, ByteBuffer original) throws IOException {
        String text;
        try {
            text = StandardCharsets.UTF_8
                    .newDecoder()
                    .decode(original.duplicate())
                    .toString();
        } catch (CharacterCodingException notText) {
            ByteBuffer base64 = Base64.getEncoder().encode(original.duplicate());
            writer.text(
                    "original_base64",
                    StandardCharsets.ISO_8859_1.decode(base64).toString());
            return;
        }
        writer.text("original", text);
    }
}
