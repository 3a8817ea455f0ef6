package io.millrace.connect.file;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.Comparator;

/**
 * Where one line of a part file is, and which result it holds.
 *
 * @param part the part file's number in the merge
 * @param offsetBytes where the line begins in its part
 * @param numBytes its length without the line's end
 * @param file the source's file
 * @param line the source's line, from 1
 * @param index the sample's index; {@link #ERROR} for an error
 */
record PartLine(int part, long offsetBytes, int numBytes, String file, long line, int index) {
    /** Sorts behind the samples that the request had emitted before it failed. */
    static final int ERROR = Integer.MAX_VALUE;

    static final Comparator<PartLine> SOURCE_ORDER = Comparator.comparing(PartLine::file)
            .thenComparingLong(PartLine::line)
            .thenComparingInt(PartLine::index);

    private static final JsonFactory JSON = new JsonFactory();

    boolean isError() {
        return index == ERROR;
    }

    boolean holdsSameResultAs(PartLine other) {
        return SOURCE_ORDER.compare(this, other) == 0;
    }

    String result() {
        String source = "line " + line + " of " + file;
        return isError() ? "the error of " + source : "sample " + index + " of " + source;
    }

    /** What a result line says about itself; fields it lacks stay null. */
    static final class Fields {
        String requestId;
        String file;
        Long line;
        Integer index;
        boolean error;

        static Fields read(byte[] json) throws IOException {
            Fields fields = new Fields();
            try (JsonParser parser = JSON.createParser(json)) {
                if (parser.nextToken() != JsonToken.START_OBJECT) {
                    throw new IOException("not a JSON object");
                }
                while (parser.nextToken() == JsonToken.FIELD_NAME) {
                    fields.readField(parser);
                }
            }
            if (fields.file == null || fields.line == null || (fields.index == null) != fields.error) {
                throw new IOException("not a completion or an error of a file's line");
            }
            return fields;
        }

        private void readField(JsonParser parser) throws IOException {
            String name = parser.currentName();
            parser.nextToken();
            switch (name) {
                case "request_id" -> requestId = parser.getValueAsString();
                case "index" -> index = parser.getIntValue();
                case "source" -> readSource(parser);
                case "error" -> {
                    error = true;
                    parser.skipChildren();
                }
                default -> parser.skipChildren();
            }
        }

        private void readSource(JsonParser parser) throws IOException {
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String name = parser.currentName();
                parser.nextToken();
                if ("file".equals(name)) {
                    file = parser.getText();
                } else if ("line".equals(name)) {
                    line = parser.getLongValue();
                }
            }
        }
    }
}
