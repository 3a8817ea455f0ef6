package io.millrace.connect.file;

import io.millrace.schemas.PromptEnvelope;
import java.nio.file.Path;

/** Prompts from JSON Lines files. */
public final class JsonlPrompts {
    /** The longest line that is read, without its end, unless the caller says otherwise. */
    public static final int DEFAULT_MAX_LINE_BYTES = 16 << 20;

    private JsonlPrompts() {}

    /** The prompts of one file, with lines of up to {@link #DEFAULT_MAX_LINE_BYTES}. */
    public static JsonlSource source(Path file) {
        return source(file, DEFAULT_MAX_LINE_BYTES);
    }

    /**
     * The prompts of one file, in the file's order, as a bounded source: one {@link PromptEnvelope} for every line that
     * is not blank, bad ones included. Lines are read as they are asked for, by one of the source's readers, and a
     * checkpoint holds the position; the file must not change while the job may be resumed.
     *
     * @param file the file; its name stands in every record's source as it is given here
     * @param maxLineBytes longer lines become an error, with the beginning of the line as their original
     */
    public static JsonlSource source(Path file, int maxLineBytes) {
        return new JsonlSource(file.toString(), maxLineBytes);
    }
}
