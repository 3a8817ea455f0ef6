package io.millrace.connect.json;

/** Which fields of a completion are written. */
public enum JsonFields {
    /** Everything, with what depends on the run: metrics, usage.cached_tokens and usage.tier_tokens. For streams. */
    ALL(true),
    /** Only what the same input always gives again, so that the files of two runs have equal bytes. For batches. */
    REPRODUCIBLE(false);

    private final boolean runDependent;

    JsonFields(boolean runDependent) {
        this.runDependent = runDependent;
    }

    boolean runDependent() {
        return runDependent;
    }
}
