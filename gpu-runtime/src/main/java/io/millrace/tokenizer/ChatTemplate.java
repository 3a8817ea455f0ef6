package io.millrace.tokenizer;

import io.millrace.tokenizer.template.JinjaTemplate;
import io.millrace.tokenizer.template.MarkedText;
import io.millrace.tokenizer.template.TemplateException;
import java.time.Clock;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** A model's chat template. Immutable; any thread. */
final class ChatTemplate {
    private final JinjaTemplate template;
    private final String file;
    private final Map<String, String> namedTokens;

    /**
     * Parses the template.
     *
     * @param file where the source comes from, for messages
     * @param namedTokens bos_token, eos_token and the others that templates name
     */
    ChatTemplate(String source, String file, Map<String, String> namedTokens) {
        this.file = file;
        this.namedTokens = Map.copyOf(namedTokens);
        try {
            template = JinjaTemplate.parse(source, Clock.systemDefaultZone());
        } catch (TemplateException e) {
            throw new ChatTemplateException(
                    "chat template in " + where(e) + ": " + e.getMessage()
                            + "; correct the template, or remove it and send \"prompt\" or \"prompt_token_ids\"",
                    e);
        }
    }

    /** Renders a chat; roles and contents are marked as data. Throws ChatTemplateException when the template refuses. */
    MarkedText render(List<ChatMessage> messages, boolean addGenerationPrompt) {
        Map<String, Object> variables = new HashMap<>(namedTokens);
        variables.put("messages", messages.stream().map(ChatTemplate::fields).collect(Collectors.toList()));
        variables.put("add_generation_prompt", addGenerationPrompt);
        variables.put("tools", null);
        variables.put("documents", null);
        try {
            return template.render(variables);
        } catch (TemplateException e) {
            throw new ChatTemplateException(
                    "the chat template (" + where(e) + ") refuses the messages: " + e.getMessage()
                            + "; change the roles, order or content of \"messages\", or send a rendered \"prompt\"",
                    e);
        }
    }

    private static Map<String, Object> fields(ChatMessage message) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("role", MarkedText.data(message.role()));
        fields.put("content", MarkedText.data(message.content()));
        return fields;
    }

    private String where(TemplateException e) {
        return e.line() > 0 ? file + ", template line " + e.line() : file;
    }
}
