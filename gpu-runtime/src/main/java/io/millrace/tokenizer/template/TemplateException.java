package io.millrace.tokenizer.template;

/** A template that cannot be parsed, does what is not supported, or refuses its input by raise_exception. */
public final class TemplateException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int line;

    TemplateException(String message) {
        this(message, 0, null);
    }

    TemplateException(String message, int line, Throwable cause) {
        super(message, cause);
        this.line = line;
    }

    /** The template's line, from 1, or 0 when unknown. */
    public int line() {
        return line;
    }
}
