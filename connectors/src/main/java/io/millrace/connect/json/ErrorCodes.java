package io.millrace.connect.json;

/**
 * The codes of the errors that reading a record can meet. Stable: users count dead letters by them.
 */
public final class ErrorCodes {
    /** The bytes are not UTF-8 text. */
    public static final String INVALID_UTF8 = "invalid_utf8";
    /** The text is not one JSON object. */
    public static final String INVALID_JSON = "invalid_json";
    /** The bytes are not a single-object encoded Avro record of a known schema. */
    public static final String INVALID_AVRO = "invalid_avro";
    /** A field has the wrong type or a value that its type cannot hold. */
    public static final String INVALID_FIELD = "invalid_field";
    /** A field that no prompt has. */
    public static final String UNKNOWN_FIELD = "unknown_field";
    /** A field that is known, and not supported by this version. */
    public static final String UNSUPPORTED_FIELD = "unsupported_field";
    /** A field given twice in one object. */
    public static final String DUPLICATE_FIELD = "duplicate_field";
    /** A field that must be there and is not. */
    public static final String MISSING_FIELD = "missing_field";
    /** Fields that exclude each other. */
    public static final String CONFLICTING_FIELDS = "conflicting_fields";
    /** A record longer than the source takes. */
    public static final String RECORD_TOO_LARGE = "record_too_large";
    /** A record without a value (a Kafka tombstone). */
    public static final String NULL_RECORD = "null_record";
    /** The parser itself failed: a defect of Millrace, reported instead of failing the job for ever. */
    public static final String PARSER_DEFECT = "parser_defect";

    private ErrorCodes() {}
}
