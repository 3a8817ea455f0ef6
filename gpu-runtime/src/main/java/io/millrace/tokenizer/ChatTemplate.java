package io.millrace.tokenizer;

import java.util.List;
import java.util.Map;

/** A model's chat template. */
final class ChatTemplate {
    private final String file;

    ChatTemplate(String source, String file, Map<String, String> namedTokens) {
        this.file = file;
    }

    MarkedText render(List<ChatMessage> messages, boolean addGenerationPrompt) {
        throw new ChatTemplateException(file + ": chat templates are not rendered yet; send \"prompt\"");
    }
}
