package io.millrace.connect.json;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Reads single values from a JSON text, strictly by type, naming the path of what is wrong. One object reads one
 * record, on one thread.
 */
final class JsonValues implements AutoCloseable {
    /** Longer than any 64-bit number; what is longer is out of range without being converted. */
    private static final int MAX_INTEGER_CHARS = 20;

    private final String text;
    private final JsonParser parser;

    /** Reads the value of a field; the parser stands on its first token, and is left on its last. */
    @FunctionalInterface
    interface FieldReader {
        void read(String name, String path) throws IOException, RecordException;
    }

    JsonValues(String text) throws IOException {
        this.text = text;
        this.parser = Json.FACTORY.createParser(text);
    }

    /** Moves to the record's object. */
    void startRecord() throws IOException, RecordException {
        JsonToken first = parser.nextToken();
        if (first != JsonToken.START_OBJECT) {
            throw new RecordException(
                    ErrorCodes.INVALID_JSON,
                    "a prompt is one JSON object, found " + (first == null ? "an empty record" : found()),
                    "Write every prompt as one object, for example {\"request_id\": \"a\", \"prompt\": \"Hello\"}.");
        }
    }

    /** Checks that nothing follows the record's object. */
    void endRecord() throws IOException, RecordException {
        if (parser.nextToken() != null) {
            throw new RecordException(
                    ErrorCodes.INVALID_JSON,
                    "the record goes on after its object, at column "
                            + parser.currentTokenLocation().getColumnNr(),
                    "Write one JSON object a record.");
        }
    }

    /** Reads all fields of the object the parser stands on; refuses a name given twice. */
    void fields(String path, FieldReader reader) throws IOException, RecordException {
        Set<String> seen = new HashSet<>();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            String fieldPath = path.isEmpty() ? name : path + "." + name;
            if (!seen.add(name)) {
                throw new RecordException(
                        ErrorCodes.DUPLICATE_FIELD,
                        "the field \"" + Json.excerpt(fieldPath) + "\" is given twice",
                        "Give it once.");
            }
            parser.nextToken();
            reader.read(name, fieldPath);
        }
    }

    boolean isNull() {
        return parser.currentToken() == JsonToken.VALUE_NULL;
    }

    void object(String path, FieldReader reader) throws IOException, RecordException {
        expect(JsonToken.START_OBJECT, path, "an object");
        fields(path, reader);
    }

    String string(String path) throws IOException, RecordException {
        expect(JsonToken.VALUE_STRING, path, "a string");
        String value = parser.getText();
        if (Json.hasUnpairedSurrogate(value)) {
            throw invalid(path + " has half of a surrogate pair (\\ud800 to \\udfff), which is not Unicode text");
        }
        return value;
    }

    boolean bool(String path) throws RecordException {
        JsonToken token = parser.currentToken();
        if (token != JsonToken.VALUE_TRUE && token != JsonToken.VALUE_FALSE) {
            throw wrongType(path, "true or false");
        }
        return token == JsonToken.VALUE_TRUE;
    }

    int int32(String path) throws IOException, RecordException {
        long value = integer(path, "a 32-bit integer");
        if (value < Integer.MIN_VALUE || value > Integer.MAX_VALUE) {
            throw outOfRange(path, "a 32-bit integer", Integer.MIN_VALUE, Integer.MAX_VALUE);
        }
        return (int) value;
    }

    long int64(String path) throws IOException, RecordException {
        return integer(path, "a 64-bit integer");
    }

    private long integer(String path, String type) throws IOException, RecordException {
        expect(JsonToken.VALUE_NUMBER_INT, path, type);
        String digits = parser.getText();
        try {
            if (digits.length() <= MAX_INTEGER_CHARS) {
                return Long.parseLong(digits);
            }
        } catch (NumberFormatException tooLarge) {
            // The parser has checked the digits: only the range is left to fail.
        }
        throw outOfRange(path, type, Long.MIN_VALUE, Long.MAX_VALUE);
    }

    double float64(String path) throws IOException, RecordException {
        if (!parser.currentToken().isNumeric()) {
            throw wrongType(path, "a number");
        }
        double value = Double.parseDouble(parser.getText());
        if (Double.isInfinite(value)) {
            throw outOfRange(path, "a number", -Double.MAX_VALUE, Double.MAX_VALUE);
        }
        return value;
    }

    List<String> strings(String path) throws IOException, RecordException {
        expect(JsonToken.START_ARRAY, path, "an array of strings");
        List<String> values = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            values.add(string(path + "[" + values.size() + "]"));
        }
        return values;
    }

    List<Integer> int32s(String path) throws IOException, RecordException {
        expect(JsonToken.START_ARRAY, path, "an array of integers");
        List<Integer> values = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            if (parser.currentToken() == JsonToken.VALUE_NUMBER_INT && parser.getTextLength() < 10) {
                values.add(parser.getIntValue());
            } else {
                values.add(int32(path + "[" + values.size() + "]"));
            }
        }
        return values;
    }

    Map<String, Double> numbersByName(String path) throws IOException, RecordException {
        Map<String, Double> values = new LinkedHashMap<>();
        object(path, (name, fieldPath) -> values.put(name, float64(fieldPath)));
        return values;
    }

    /** Reads each element of an array of objects. */
    void objects(String path, FieldReader reader) throws IOException, RecordException {
        expect(JsonToken.START_ARRAY, path, "an array of objects");
        int index = 0;
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            reader.read(null, path + "[" + index + "]");
            index++;
        }
    }

    boolean isString() {
        return parser.currentToken() == JsonToken.VALUE_STRING;
    }

    /** The value as it stands in the text, character by character. */
    String raw() throws IOException {
        long start = parser.currentTokenLocation().getCharOffset();
        if (parser.currentToken().isStructStart()) {
            parser.skipChildren();
        } else {
            parser.finishToken();
        }
        return text.substring((int) start, (int) parser.currentLocation().getCharOffset());
    }

    private void expect(JsonToken token, String path, String type) throws RecordException {
        if (parser.currentToken() != token) {
            throw wrongType(path, type);
        }
    }

    private RecordException wrongType(String path, String type) {
        return invalid(path + " must be " + type + ", found " + found());
    }

    private RecordException outOfRange(String path, String type, Number min, Number max) throws IOException {
        return invalid(path + " is " + Json.excerpt(parser.getText()) + ", beyond " + type + ": " + min + " to " + max);
    }

    private static RecordException invalid(String message) {
        return new RecordException(
                ErrorCodes.INVALID_FIELD, message, "Correct the value, or leave the field out to have its default.");
    }

    private String found() {
        JsonToken token = parser.currentToken();
        if (token == null) {
            return "nothing";
        }
        switch (token) {
            case START_OBJECT:
                return "an object";
            case START_ARRAY:
                return "an array";
            case VALUE_STRING:
                return "a string";
            case VALUE_NUMBER_FLOAT:
            case VALUE_NUMBER_INT:
                return "the number " + scalarText();
            default:
                return scalarText();
        }
    }

    private String scalarText() {
        try {
            return Json.excerpt(parser.getText());
        } catch (IOException e) {
            // Numbers and literals are complete once their token is; this is for the compiler.
            throw new IllegalStateException("a scalar token has no text", e);
        }
    }

    @Override
    public void close() throws IOException {
        parser.close();
    }
}
