package io.millrace.connect.json;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CoderResult;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;

/** The step from a record's bytes to its text, and what can be read from a text that is no good. Stateless. */
final class RecordText {
    private static final char BYTE_ORDER_MARK = '\uFEFF';
    private static final char REPLACEMENT = '\uFFFD';

    private RecordText() {}

    /** Strict UTF-8; a byte order mark at the start is dropped, since editors put it there unasked. */
    static String decode(byte[] bytes) throws RecordException {
        String text = new String(bytes, StandardCharsets.UTF_8);
        // The lenient decoder is much the faster one; only a text with a replacement character can have been malformed.
        if (text.indexOf(REPLACEMENT) >= 0) {
            checkUtf8(bytes);
        }
        return text.startsWith(String.valueOf(BYTE_ORDER_MARK)) ? text.substring(1) : text;
    }

    private static void checkUtf8(byte[] bytes) throws RecordException {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        CharBuffer out = CharBuffer.allocate(bytes.length);
        CoderResult result = StandardCharsets.UTF_8
                .newDecoder()
                .onMalformedInput(CodingErrorAction.REPORT)
                .onUnmappableCharacter(CodingErrorAction.REPORT)
                .decode(in, out, true);
        if (!result.isError()) {
            return;
        }
        String before = out.flip().toString();
        int lastBreak = before.lastIndexOf('\n');
        long line = before.chars().filter(c -> c == '\n').count() + 1;
        throw new RecordException(
                ErrorCodes.INVALID_UTF8,
                String.format(
                        "not UTF-8: byte 0x%02x at byte offset %d (line %d, column %d)",
                        bytes[in.position()], in.position(), line, before.length() - lastBreak),
                "Encode the record as UTF-8.");
    }

    /**
     * The top-level request_id of a record that is bad elsewhere, or null where it cannot be read. Malformed UTF-8
     * elsewhere does not hide it.
     */
    static String findRequestId(byte[] bytes) {
        try (JsonParser parser = Json.FACTORY.createParser(new String(bytes, StandardCharsets.UTF_8))) {
            if (parser.nextToken() != JsonToken.START_OBJECT) {
                return null;
            }
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                boolean wanted = "request_id".equals(parser.currentName());
                JsonToken value = parser.nextToken();
                if (wanted && value == JsonToken.VALUE_STRING) {
                    String id = parser.getText();
                    return isGoodRequestId(id) && id.indexOf(REPLACEMENT) < 0 ? id : null;
                }
                parser.skipChildren();
            }
            return null;
        } catch (IOException malformed) {
            // The text ended or broke before the id came; the record's own error says so.
            return null;
        }
    }

    static boolean isGoodRequestId(String id) {
        return !id.isEmpty() && !Json.hasUnpairedSurrogate(id);
    }
}
