package io.millrace.connect.json;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamWriteFeature;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.core.json.JsonWriteFeature;

/** The one JSON factory of the module. Thread-safe. */
final class Json {
    /**
     * Strict RFC 8259 reading. Lengths are bounded by the sources, so only nesting keeps a limit. Names are not
     * canonicalised: the sender chooses them, and a shared symbol table would grow with them. The writer's own shortest
     * decimal is used because Double.toString before JDK 19 is not always the shortest, and bytes must not depend on the
     * JDK.
     */
    static final JsonFactory FACTORY = JsonFactory.builder()
            .streamReadConstraints(StreamReadConstraints.builder()
                    .maxStringLength(Integer.MAX_VALUE)
                    .maxNumberLength(Integer.MAX_VALUE)
                    .maxNameLength(Integer.MAX_VALUE)
                    .build())
            .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
            .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
            .disable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
            .enable(StreamWriteFeature.USE_FAST_DOUBLE_WRITER)
            .enable(JsonWriteFeature.COMBINE_UNICODE_SURROGATES_IN_UTF8)
            .build();

    private static final int MAX_EXCERPT_CHARS = 80;

    private Json() {}

    /** Text from a record, cut to what an error message can carry. */
    static String excerpt(String text) {
        if (text.length() <= MAX_EXCERPT_CHARS) {
            return text;
        }
        int end = Character.isHighSurrogate(text.charAt(MAX_EXCERPT_CHARS - 1))
                ? MAX_EXCERPT_CHARS - 1
                : MAX_EXCERPT_CHARS;
        return text.substring(0, end) + "…";
    }

    /** Whether the text has a surrogate without its other half: no Unicode text, and no UTF-8 can carry it. */
    static boolean hasUnpairedSurrogate(String text) {
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
                i++;
            } else if (Character.isSurrogate(c)) {
                return true;
            }
        }
        return false;
    }
}
