package io.millrace.operators.prepare;

import io.millrace.schemas.ErrorInfo;

/** A prompt that cannot become a request; carries the error its dead letter will show. */
final class InvalidPromptException extends Exception {
    private static final long serialVersionUID = 1L;

    private final transient ErrorInfo error;

    InvalidPromptException(String code, String message, String remedy) {
        super(message);
        this.error = new ErrorInfo(code, message, remedy);
    }

    ErrorInfo error() {
        return error;
    }
}
