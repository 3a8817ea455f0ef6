package io.millrace.model;

/** A model directory that cannot be used: the message names the file, the key or tensor, what is wrong and the remedy. */
public final class InvalidModelException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    public InvalidModelException(String message) {
        super(message);
    }

    public InvalidModelException(String message, Throwable cause) {
        super(message, cause);
    }
}
