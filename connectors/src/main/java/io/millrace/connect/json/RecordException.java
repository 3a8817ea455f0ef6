package io.millrace.connect.json;

import io.millrace.schemas.ErrorInfo;

/** A record that cannot become a prompt; carries the error that its sender will see. */
public final class RecordException extends Exception {
    private static final long serialVersionUID = 1L;

    private final String code;
    private final String remedy;

    /**
     * @param code one of {@link ErrorCodes}
     * @param message what is wrong, and where
     * @param remedy what the sender can do
     */
    public RecordException(String code, String message, String remedy) {
        // No stack trace: this is a verdict on data, raised once per bad record.
        super(message, null, false, false);
        this.code = code;
        this.remedy = remedy;
    }

    /** The error as it is written to dead letters. */
    public ErrorInfo toErrorInfo() {
        return new ErrorInfo(code, getMessage(), remedy);
    }
}
