package io.millrace.tokenizer;

/** A tokenizer file that cannot be read or used; the message names the file, the fault and the remedy. */
public final class InvalidTokenizerException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public InvalidTokenizerException(String message) {
        super(message);
    }

    public InvalidTokenizerException(String message, Throwable cause) {
        super(message, cause);
    }
}
