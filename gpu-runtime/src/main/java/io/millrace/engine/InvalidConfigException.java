package io.millrace.engine;

/** A setting outside its limits. The message gives key, value, limit and remedy. */
public final class InvalidConfigException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    public InvalidConfigException(String key, Object value, String limit, String remedy) {
        super("option " + key + " = " + value + ": " + limit + "; " + remedy);
    }
}
