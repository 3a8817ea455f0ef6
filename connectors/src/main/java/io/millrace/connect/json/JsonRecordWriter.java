package io.millrace.connect.json;

import com.fasterxml.jackson.core.JsonGenerator;
import io.millrace.schemas.ErrorInfo;
import io.millrace.schemas.PositionLogprobs;
import io.millrace.schemas.Source;
import io.millrace.schemas.TokenLogprob;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.List;

/** Writes one record as one line of JSON, without the line's end. One object writes one record, on one thread. */
final class JsonRecordWriter {
    private static final int INITIAL_BYTES = 1024;
    /** What OpenAI's interface and vLLM write for a token that cannot be drawn: JSON has no infinity. */
    private static final float NO_PROBABILITY = -9999f;

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream(INITIAL_BYTES);
    final JsonGenerator json;

    JsonRecordWriter() throws IOException {
        json = Json.FACTORY.createGenerator(bytes);
        json.writeStartObject();
    }

    byte[] finish() throws IOException {
        json.writeEndObject();
        json.close();
        return bytes.toByteArray();
    }

    /** Null is written as null. */
    void text(String name, String value) throws IOException {
        json.writeFieldName(name);
        if (value == null) {
            json.writeNull();
        } else {
            json.writeString(unicode(value));
        }
    }

    void optionalText(String name, String value) throws IOException {
        if (value != null) {
            text(name, value);
        }
    }

    /** JSON text, embedded as it is; line ends can only stand between its tokens and become spaces. */
    void optionalJson(String name, String value) throws IOException {
        if (value != null) {
            json.writeFieldName(name);
            json.writeRawValue(unicode(value).replace('\n', ' ').replace('\r', ' '));
        }
    }

    void ints(String name, List<Integer> values) throws IOException {
        json.writeArrayFieldStart(name);
        for (int value : values) {
            json.writeNumber(value);
        }
        json.writeEndArray();
    }

    void optionalInts(String name, List<Integer> values) throws IOException {
        if (values != null) {
            ints(name, values);
        }
    }

    void optionalLogprobs(String name, List<PositionLogprobs> positions) throws IOException {
        if (positions == null) {
            return;
        }
        json.writeArrayFieldStart(name);
        for (PositionLogprobs position : positions) {
            json.writeStartObject();
            json.writeNumberField("token_id", position.getTokenId());
            logprob(position.getLogprob());
            json.writeArrayFieldStart("top");
            for (TokenLogprob alternative : position.getTop()) {
                json.writeStartObject();
                json.writeNumberField("token_id", alternative.getTokenId());
                logprob(alternative.getLogprob());
                json.writeEndObject();
            }
            json.writeEndArray();
            json.writeEndObject();
        }
        json.writeEndArray();
    }

    private void logprob(Float value) throws IOException {
        if (value == null || value.isNaN()) {
            json.writeNullField("logprob");
        } else {
            json.writeNumberField("logprob", Math.max(value, NO_PROBABILITY));
        }
    }

    void number(String name, double value) throws IOException {
        if (Double.isNaN(value)) {
            json.writeNullField(name);
        } else if (Double.isInfinite(value)) {
            json.writeNumberField(name, Math.copySign((double) -NO_PROBABILITY, value));
        } else {
            json.writeNumberField(name, value);
        }
    }

    void source(Source source) throws IOException {
        json.writeObjectFieldStart("source");
        optionalText("file", source.getFile());
        if (source.getLine() != null) {
            json.writeNumberField("line", source.getLine());
        }
        optionalText("topic", source.getTopic());
        if (source.getPartition() != null) {
            json.writeNumberField("partition", source.getPartition());
        }
        if (source.getOffset() != null) {
            json.writeNumberField("offset", source.getOffset());
        }
        json.writeEndObject();
    }

    void error(ErrorInfo error) throws IOException {
        json.writeObjectFieldStart("error");
        text("code", error.getCode());
        text("message", error.getMessage());
        text("remedy", error.getRemedy());
        json.writeEndObject();
    }

    /** Half a surrogate pair cannot be encoded; it becomes U+FFFD, as UTF-8 decoders do with what they cannot read. */
    private static String unicode(String value) {
        if (!Json.hasUnpairedSurrogate(value)) {
            return value;
        }
        StringBuilder repaired = new StringBuilder(value.length());
        value.codePoints()
                .map(c -> c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE ? 0xFFFD : c)
                .forEach(repaired::appendCodePoint);
        return repaired.toString();
    }
}
