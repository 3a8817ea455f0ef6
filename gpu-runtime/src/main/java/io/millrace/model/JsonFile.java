package io.millrace.model;

import com.fasterxml.jackson.core.JsonLocation;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/**
 * A JSON object of a model directory with typed access to its keys; null counts as absent. Every error names file, key and
 * value. Python's NaN and Infinity are taken, as published configurations may hold them; a duplicate key is an error.
 */
final class JsonFile {
    private static final ObjectMapper MAPPER = JsonMapper.builder()
            .enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(com.fasterxml.jackson.core.json.JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
            .build();

    private final String where;
    private final String prefix;
    private final JsonNode root;

    private JsonFile(String where, String prefix, JsonNode root) {
        this.where = where;
        this.prefix = prefix;
        this.root = root;
    }

    static JsonFile read(Path file) {
        try {
            return new JsonFile(file.toString(), "", parse(Files.readAllBytes(file), file.toString()));
        } catch (NoSuchFileException e) {
            throw new InvalidModelException(
                    file + " does not exist; a model directory in Hugging Face format has this file", e);
        } catch (IOException e) {
            throw new InvalidModelException(file + " cannot be read: " + e, e);
        }
    }

    static JsonNode parse(byte[] json, String where) throws IOException {
        try {
            JsonNode root = MAPPER.readTree(json);
            if (!root.isObject()) {
                throw new InvalidModelException(where + " does not hold a JSON object");
            }
            return root;
        } catch (JsonProcessingException e) {
            JsonLocation at = e.getLocation();
            String place = at == null ? "" : " at line " + at.getLineNr() + ", column " + at.getColumnNr();
            // The parser's mark of an open bracket names a source that it does not know.
            String fault = e.getOriginalMessage().replaceFirst(" \\(start marker at .*", "");
            throw new InvalidModelException(
                    where + " is no valid JSON" + place + ": " + fault + "; it was perhaps cut: fetch it again", e);
        }
    }

    String where() {
        return where;
    }

    boolean has(String key) {
        return root.hasNonNull(key);
    }

    /** Whether the key is written, be it as null. */
    boolean mentions(String key) {
        return root.has(key);
    }

    JsonNode get(String key) {
        return root.path(key);
    }

    /** The object under a key; errors name its keys as key.inner. */
    JsonFile object(String key) {
        if (!get(key).isObject()) {
            throw invalid(key, "must be an object");
        }
        return new JsonFile(where, prefix + key + ".", get(key));
    }

    int requireInt(String key, int min) {
        if (!has(key)) {
            throw new InvalidModelException(where + " lacks '" + prefix + key + "'");
        }
        return optionalInt(key, 0, min);
    }

    int optionalInt(String key, int absent, int min) {
        if (!has(key)) {
            return absent;
        }
        JsonNode node = get(key);
        if (!node.isIntegralNumber() || !node.canConvertToInt() || node.intValue() < min) {
            throw invalid(key, "must be a whole number from " + min + " to " + Integer.MAX_VALUE);
        }
        return node.intValue();
    }

    double requireNumber(String key) {
        if (!has(key)) {
            throw new InvalidModelException(where + " lacks '" + prefix + key + "'");
        }
        return optionalNumber(key, 0);
    }

    double optionalNumber(String key, double absent) {
        if (!has(key)) {
            return absent;
        }
        double value = get(key).isNumber() ? get(key).doubleValue() : Double.NaN;
        if (!Double.isFinite(value)) {
            throw invalid(key, "must be a finite number");
        }
        return value;
    }

    boolean optionalBoolean(String key, boolean absent) {
        if (!has(key)) {
            return absent;
        }
        if (!get(key).isBoolean()) {
            throw invalid(key, "must be true or false");
        }
        return get(key).booleanValue();
    }

    String optionalText(String key, String absent) {
        if (!has(key)) {
            return absent;
        }
        if (!get(key).isTextual()) {
            throw invalid(key, "must be a text");
        }
        return get(key).textValue();
    }

    InvalidModelException invalid(String key, String limit) {
        return new InvalidModelException(where + ": '" + prefix + key + "' = " + get(key) + " " + limit);
    }
}
