package io.millrace.connect.json;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.Sampling;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * What holds for every prompt whatever its format, and can be judged without a model. Ranges of sampling settings and
 * everything about the vocabulary are judged later, where the defaults are known. Stateless; any thread.
 */
public final class PromptRules {
    private PromptRules() {}

    /** Throws the first rule the prompt breaks. */
    public static void check(Prompt prompt) throws RecordException {
        if (prompt.getRequestId() != null && !RecordText.isGoodRequestId(prompt.getRequestId())) {
            throw invalid(
                    "request_id is empty", "Give a non-empty request_id, or none: the source coordinates stand in.");
        }
        checkOneInput(prompt);
        checkJson("metadata", prompt.getMetadata());
        checkJson("ground_truth", prompt.getGroundTruth());
        if (prompt.getSampling() != null) {
            checkSampling(prompt.getSampling());
        }
    }

    private static void checkOneInput(Prompt prompt) throws RecordException {
        List<String> given = new ArrayList<>();
        if (prompt.getPrompt() != null) {
            given.add("prompt");
        }
        if (prompt.getMessages() != null) {
            given.add("messages");
        }
        if (prompt.getPromptTokenIds() != null) {
            given.add("prompt_token_ids");
        }
        String remedy = "Give exactly one of prompt (text), messages (chat), prompt_token_ids.";
        if (given.isEmpty()) {
            throw new RecordException(
                    ErrorCodes.MISSING_FIELD, "there is no prompt, messages or prompt_token_ids", remedy);
        }
        if (given.size() > 1) {
            throw new RecordException(
                    ErrorCodes.CONFLICTING_FIELDS, String.join(" and ", given) + " exclude each other", remedy);
        }
        if (prompt.getMessages() != null && prompt.getMessages().isEmpty()
                || prompt.getPromptTokenIds() != null
                        && prompt.getPromptTokenIds().isEmpty()) {
            throw invalid(given.get(0) + " is an empty array", "Give at least one element.");
        }
    }

    private static void checkJson(String path, String json) throws RecordException {
        if (json == null) {
            return;
        }
        try (JsonParser parser = Json.FACTORY.createParser(json)) {
            if (parser.nextToken() == null) {
                throw invalid(path + " is empty text, not a JSON value", "Give a JSON value, or leave the field out.");
            }
            parser.skipChildren();
            if (parser.nextToken() != null) {
                throw invalid(path + " holds more than one JSON value", "Give one JSON value.");
            }
        } catch (JsonProcessingException e) {
            throw invalid(
                    path + " is not JSON text: " + Json.excerpt(e.getOriginalMessage()),
                    "Give a JSON value as text; a string needs its quotes.");
        } catch (IOException e) {
            throw new IllegalStateException("reading from memory failed", e);
        }
    }

    private static void checkSampling(Sampling sampling) throws RecordException {
        checkNumber("temperature", sampling.getTemperature());
        checkNumber("top_p", sampling.getTopP());
        checkNumber("min_p", sampling.getMinP());
        checkNumber("presence_penalty", sampling.getPresencePenalty());
        checkNumber("frequency_penalty", sampling.getFrequencyPenalty());
        checkNumber("repetition_penalty", sampling.getRepetitionPenalty());
        if (sampling.getLogitBias() == null) {
            return;
        }
        for (Map.Entry<String, Double> bias : sampling.getLogitBias().entrySet()) {
            String path = "logit_bias." + Json.excerpt(bias.getKey());
            if (!isTokenId(bias.getKey())) {
                throw invalid(
                        "sampling." + path + ": the name is not a token id",
                        "Name token ids in decimal digits, for example {\"50256\": -100}.");
            }
            checkNumber(path, bias.getValue());
        }
    }

    private static boolean isTokenId(String name) {
        return name.matches("0|[1-9][0-9]{0,8}")
                || name.matches("[1-9][0-9]{9}") && Long.parseLong(name) <= Integer.MAX_VALUE;
    }

    private static void checkNumber(String name, Double value) throws RecordException {
        if (value != null && (value.isNaN() || value.isInfinite())) {
            throw invalid(
                    "sampling." + name + " is " + value + ", not a finite number",
                    "Correct the value, or leave the field out to have its default.");
        }
    }

    private static RecordException invalid(String message, String remedy) {
        return new RecordException(ErrorCodes.INVALID_FIELD, message, remedy);
    }
}
