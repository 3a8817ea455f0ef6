package io.millrace.backend;

/** A fault that a step traced to one sequence of its batch. The step had no other effect that matters. */
public final class SequenceFaultException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int sequence;

    public SequenceFaultException(int sequence, String message, Throwable cause) {
        super(message, cause);
        this.sequence = sequence;
    }

    /** The sequence's place in the {@link BatchInput}. */
    public int sequence() {
        return sequence;
    }
}
