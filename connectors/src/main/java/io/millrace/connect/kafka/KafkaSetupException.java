package io.millrace.connect.kafka;

/** A setting that cannot work with the broker, or a broker that cannot be used: says which, why and what to do. */
public final class KafkaSetupException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String key;

    /**
     * @param key the setting or topic
     * @param value what it is
     * @param limit what it would have to be
     * @param remedy what to do
     */
    public KafkaSetupException(String key, Object value, String limit, String remedy) {
        this(key, value, limit, remedy, null);
    }

    /** With the broker's own answer as the cause. */
    public KafkaSetupException(String key, Object value, String limit, String remedy, Throwable cause) {
        super(key + " is " + value + "; " + limit + ": " + remedy, cause);
        this.key = key;
    }

    /** The setting or topic. */
    public String key() {
        return key;
    }
}
