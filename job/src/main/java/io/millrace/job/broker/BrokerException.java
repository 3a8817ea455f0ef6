package io.millrace.job.broker;

/** The in-JVM broker could not start or serve; the message says what, where and what to do. */
public final class BrokerException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public BrokerException(String message, Throwable cause) {
        super(message, cause);
    }
}
