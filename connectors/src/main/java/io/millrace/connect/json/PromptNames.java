package io.millrace.connect.json;

import io.millrace.schemas.Message;
import io.millrace.schemas.Prompt;
import io.millrace.schemas.Sampling;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.avro.Schema;

/** The names a prompt's fields may have, and what a sender most likely meant by another. Stateless. */
final class PromptNames {
    static final String STRUCTURED_OUTPUTS = "structured_outputs";

    private static final List<String> PROMPT = names(Prompt.getClassSchema());
    private static final List<String> SAMPLING = names(Sampling.getClassSchema());
    private static final List<String> MESSAGE = names(Message.getClassSchema());
    /** A line of OpenAI's batch files. */
    private static final Set<String> OPENAI_LINE = Set.of("custom_id", "body", "method", "url");
    /** What other programs call the same things. */
    private static final Map<String, String> SYNONYMS = Map.of(
            "id", "request_id",
            "text", "prompt",
            "input_ids", "prompt_token_ids",
            "max_new_tokens", "sampling.max_tokens",
            "max_completion_tokens", "sampling.max_tokens",
            "num_return_sequences", "sampling.n",
            "sampling_params", "sampling",
            "top_logprobs", "sampling.logprobs");

    private PromptNames() {}

    private static List<String> names(Schema schema) {
        return schema.getFields().stream().map(Schema.Field::name).toList();
    }

    static void checkPromptField(String name) throws RecordException {
        if (PROMPT.contains(name)) {
            return;
        }
        if (OPENAI_LINE.contains(name)) {
            throw new RecordException(
                    ErrorCodes.UNSUPPORTED_FIELD,
                    "the field \"" + name + "\" belongs to OpenAI batch lines, which are not supported yet",
                    "Write request_id, prompt or messages, and sampling at the top level of the record.");
        }
        throw unknown(name, name, PROMPT, "sampling.", SAMPLING);
    }

    static void checkSamplingField(String name) throws RecordException {
        if (SAMPLING.contains(name)) {
            return;
        }
        if (STRUCTURED_OUTPUTS.equals(name)) {
            throw new RecordException(
                    ErrorCodes.UNSUPPORTED_FIELD,
                    "sampling.structured_outputs is not supported yet",
                    "Leave it out, and ask for the form of the answer in the prompt.");
        }
        throw unknown(name, "sampling." + name, SAMPLING, "", PROMPT);
    }

    static void checkMessageField(String name, String path) throws RecordException {
        if (!MESSAGE.contains(name)) {
            throw unknown(name, path, MESSAGE, "", List.of());
        }
    }

    private static RecordException unknown(
            String name, String path, List<String> here, String elsewherePath, List<String> elsewhere) {
        String message = "there is no field \"" + Json.excerpt(path) + "\"";
        String meant = SYNONYMS.get(name);
        if (elsewhere.contains(name)) {
            meant = elsewherePath + name;
        }
        if (meant == null) {
            Optional<String> near = NearestName.of(name, here);
            meant = near.orElseGet(() ->
                    NearestName.of(name, elsewhere).map(n -> elsewherePath + n).orElse(null));
        }
        if (meant != null) {
            message += "; did you mean \"" + meant + "\"?";
        }
        return new RecordException(
                ErrorCodes.UNKNOWN_FIELD,
                message,
                "Use one of " + String.join(", ", here) + "; what only passes through goes into metadata.");
    }
}
