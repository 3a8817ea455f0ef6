package io.millrace.connect.json;

import com.fasterxml.jackson.core.JsonLocation;
import com.fasterxml.jackson.core.JsonProcessingException;
import io.millrace.schemas.Message;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.Sampling;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Reads the fields of one prompt from its JSON text. One object reads one record. */
final class PromptReader {
    private final JsonValues values;
    private final Prompt prompt = new Prompt();
    private final Sampling sampling = new Sampling();

    private PromptReader(JsonValues values) {
        this.values = values;
    }

    static Prompt read(String text) throws RecordException {
        try (JsonValues values = new JsonValues(text)) {
            Prompt prompt = new PromptReader(values).readRecord();
            PromptRules.check(prompt);
            return prompt;
        } catch (JsonProcessingException e) {
            JsonLocation at = e.getLocation();
            // The parser's limits (nesting) are reported without a place.
            String place = at == null ? "" : String.format(" at line %d, column %d", at.getLineNr(), at.getColumnNr());
            throw new RecordException(
                    ErrorCodes.INVALID_JSON,
                    "not valid JSON" + place + ": " + Json.excerpt(e.getOriginalMessage()),
                    "Write the record with a JSON library; check quotes, commas and that it was not cut.");
        } catch (IOException e) {
            throw new IllegalStateException("reading from memory failed", e);
        }
    }

    private Prompt readRecord() throws IOException, RecordException {
        values.startRecord();
        values.fields("", this::readField);
        values.endRecord();
        return prompt;
    }

    private void readField(String name, String path) throws IOException, RecordException {
        PromptNames.checkPromptField(name);
        if (values.isNull()) {
            return;
        }
        switch (name) {
            case "request_id" -> prompt.setRequestId(values.string(path));
            case "prompt" -> prompt.setPrompt(values.string(path));
            case "messages" -> prompt.setMessages(messages(path));
            case "prompt_token_ids" -> prompt.setPromptTokenIds(values.int32s(path));
            case "sampling" -> {
                values.object(path, this::readSamplingField);
                prompt.setSampling(sampling);
            }
            case "add_special_tokens" -> prompt.setAddSpecialTokens(values.bool(path));
            case "parse_special_tokens" -> prompt.setParseSpecialTokens(values.bool(path));
            case "group_id" -> prompt.setGroupId(values.string(path));
            case "epoch" -> prompt.setEpoch(values.int64(path));
            case "priority" -> prompt.setPriority(values.int32(path));
            case "cache_salt" -> prompt.setCacheSalt(values.string(path));
            case "metadata" -> prompt.setMetadata(values.raw());
            case "ground_truth" -> prompt.setGroundTruth(values.raw());
            case "return_prompt_token_ids" -> prompt.setReturnPromptTokenIds(values.bool(path));
            default -> throw new IllegalStateException("the schema has a field that is not read: " + name);
        }
    }

    private void readSamplingField(String name, String path) throws IOException, RecordException {
        if (PromptNames.STRUCTURED_OUTPUTS.equals(name) && values.isNull()) {
            return;
        }
        PromptNames.checkSamplingField(name);
        if (values.isNull()) {
            return;
        }
        switch (name) {
            case "n" -> sampling.setN(values.int32(path));
            case "temperature" -> sampling.setTemperature(values.float64(path));
            case "top_p" -> sampling.setTopP(values.float64(path));
            case "top_k" -> sampling.setTopK(values.int32(path));
            case "min_p" -> sampling.setMinP(values.float64(path));
            case "max_tokens" -> sampling.setMaxTokens(values.int32(path));
            case "min_tokens" -> sampling.setMinTokens(values.int32(path));
            // One string alone is common in clients of OpenAI's interface, and means the same.
            case "stop" -> sampling.setStop(values.isString() ? List.of(values.string(path)) : values.strings(path));
            case "stop_token_ids" -> sampling.setStopTokenIds(values.int32s(path));
            case "seed" -> sampling.setSeed(values.int64(path));
            case "sample_index" -> sampling.setSampleIndex(values.int32(path));
            case "presence_penalty" -> sampling.setPresencePenalty(values.float64(path));
            case "frequency_penalty" -> sampling.setFrequencyPenalty(values.float64(path));
            case "repetition_penalty" -> sampling.setRepetitionPenalty(values.float64(path));
            case "logit_bias" -> sampling.setLogitBias(values.numbersByName(path));
            case "logprobs" -> sampling.setLogprobs(values.int32(path));
            case "prompt_logprobs" -> sampling.setPromptLogprobs(values.int32(path));
            case "ignore_eos" -> sampling.setIgnoreEos(values.bool(path));
            case "skip_special_tokens" -> sampling.setSkipSpecialTokens(values.bool(path));
            case "include_stop_str_in_output" -> sampling.setIncludeStopStrInOutput(values.bool(path));
            default -> throw new IllegalStateException("the schema has a field that is not read: " + name);
        }
    }

    private List<Message> messages(String path) throws IOException, RecordException {
        List<Message> messages = new ArrayList<>();
        values.objects(path, (none, elementPath) -> messages.add(message(elementPath)));
        return messages;
    }

    private Message message(String path) throws IOException, RecordException {
        Message message = new Message();
        values.object(path, (name, fieldPath) -> {
            PromptNames.checkMessageField(name, fieldPath);
            if ("role".equals(name)) {
                message.setRole(values.string(fieldPath));
            } else {
                message.setContent(values.string(fieldPath));
            }
        });
        if (message.getRole() == null || message.getContent() == null) {
            String missing = message.getRole() == null ? "role" : "content";
            throw new RecordException(
                    ErrorCodes.MISSING_FIELD,
                    path + " has no " + missing,
                    "Give every message a role and a content, for example {\"role\": \"user\", \"content\": \"Hello\"}.");
        }
        return message;
    }
}
