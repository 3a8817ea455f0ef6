package io.millrace.connect.json;

import io.millrace.schemas.Completion;
import io.millrace.schemas.CompletionMetrics;
import io.millrace.schemas.PolicyVersion;
import io.millrace.schemas.Usage;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * Writes completions as JSON: one line without its end, UTF-8, fields in a fixed order, floats as their shortest
 * decimal whatever the JDK, so that equal completions have equal bytes. Fields that were not asked for are left out;
 * metadata and ground_truth are embedded as they came. A log probability of minus infinity is written as -9999.0.
 * Headers are not part of JSON. Stateless; any thread.
 */
public final class CompletionJson {
    private CompletionJson() {}

    /** The completion's line. */
    public static byte[] toBytes(Completion completion, JsonFields fields) {
        try {
            JsonRecordWriter writer = new JsonRecordWriter();
            writeResult(writer, completion);
            writeUsage(writer, completion.getUsage(), fields);
            writePolicyVersion(writer, completion.getPolicyVersion());
            writer.json.writeNumberField("seed", completion.getSeed());
            if (fields.runDependent() && completion.getMetrics() != null) {
                writeMetrics(writer, completion.getMetrics());
            }
            writer.optionalLogprobs("prompt_logprobs", completion.getPromptLogprobs());
            writer.optionalInts("prompt_token_ids", completion.getPromptTokenIds());
            writer.optionalText("group_id", completion.getGroupId());
            writer.optionalJson("ground_truth", completion.getGroundTruth());
            writer.optionalJson("metadata", completion.getMetadata());
            writer.source(completion.getSource());
            writer.text("numeric_fingerprint", completion.getNumericFingerprint());
            return writer.finish();
        } catch (IOException e) {
            throw new UncheckedIOException("writing to memory failed", e);
        }
    }

    private static void writeResult(JsonRecordWriter writer, Completion completion) throws IOException {
        writer.text("request_id", completion.getRequestId());
        writer.json.writeNumberField("index", completion.getIndex());
        writer.text("text", completion.getText());
        writer.ints("token_ids", completion.getTokenIds());
        writer.optionalLogprobs("logprobs", completion.getLogprobs());
        if (completion.getCumulativeLogprob() != null) {
            writer.number("cumulative_logprob", completion.getCumulativeLogprob());
        }
        writer.text("finish_reason", completion.getFinishReason());
        if (completion.getStopReason() instanceof Integer tokenId) {
            writer.json.writeNumberField("stop_reason", tokenId);
        } else {
            Object stop = completion.getStopReason();
            writer.text("stop_reason", stop == null ? null : stop.toString());
        }
    }

    private static void writeUsage(JsonRecordWriter writer, Usage usage, JsonFields fields) throws IOException {
        writer.json.writeObjectFieldStart("usage");
        writer.json.writeNumberField("prompt_tokens", usage.getPromptTokens());
        if (fields.runDependent()) {
            writer.json.writeNumberField("cached_tokens", usage.getCachedTokens());
            writer.json.writeNumberField("tier_tokens", usage.getTierTokens());
        }
        writer.json.writeNumberField("completion_tokens", usage.getCompletionTokens());
        writer.json.writeEndObject();
    }

    private static void writePolicyVersion(JsonRecordWriter writer, PolicyVersion version) throws IOException {
        writer.json.writeObjectFieldStart("policy_version");
        writer.json.writeNumberField("first", version.getFirst());
        writer.json.writeNumberField("last", version.getLast());
        if (version.getPerToken() != null) {
            writer.json.writeArrayFieldStart("per_token");
            for (long perToken : version.getPerToken()) {
                writer.json.writeNumber(perToken);
            }
            writer.json.writeEndArray();
        }
        writer.json.writeEndObject();
    }

    private static void writeMetrics(JsonRecordWriter writer, CompletionMetrics metrics) throws IOException {
        writer.json.writeObjectFieldStart("metrics");
        writer.number("queue_ms", metrics.getQueueMs());
        writer.number("ttft_ms", metrics.getTtftMs());
        writer.number("tpot_ms", metrics.getTpotMs());
        writer.json.writeEndObject();
    }
}
