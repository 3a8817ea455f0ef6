package io.millrace.tokenizer;

/** A chat that its model's template refuses, or a model without a template. */
public final class ChatTemplateException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public ChatTemplateException(String message) {
        super(message);
    }

    public ChatTemplateException(String message, Throwable cause) {
        super(message, cause);
    }
}
