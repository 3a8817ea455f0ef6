package io.millrace.tokenizer;

import java.util.Objects;

/**
 * One message of a chat. Both fields are data: text in them never becomes a control token.
 *
 * @param role the speaker, as the model's template names it ("system", "user", "assistant")
 * @param content what was said; may be empty
 */
public record ChatMessage(String role, String content) {
    public ChatMessage {
        Objects.requireNonNull(role, "role");
        Objects.requireNonNull(content, "content");
    }
}
