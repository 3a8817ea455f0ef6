package io.millrace.job.state;

/** A job's directory cannot be used as asked: it is held, or belongs to another job. The message says what to do. */
public final class StateException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public StateException(String message) {
        super(message);
    }

    public StateException(String message, Throwable cause) {
        super(message, cause);
    }
}
