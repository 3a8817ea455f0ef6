package io.millrace.sampling;

/** A sampling setting outside its limits. The message gives setting, value and limit; the remedy stands apart. */
public final class InvalidSamplingException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    private final String remedy;

    public InvalidSamplingException(String setting, Object value, String limit, String remedy) {
        super("sampling setting '" + setting + "' = " + value + " " + limit);
        this.remedy = remedy;
    }

    public String remedy() {
        return remedy;
    }
}
