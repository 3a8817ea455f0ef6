package io.millrace.model;

import java.nio.file.Path;

/** Placeholder until part A lands. */
public final class ModelDirectory {
    public static ModelDirectory open(Path directory) {
        throw new UnsupportedOperationException();
    }

    public Path path() {
        throw new UnsupportedOperationException();
    }

    public ModelSpec spec() {
        throw new UnsupportedOperationException();
    }

    public GenerationDefaults generationDefaults() {
        throw new UnsupportedOperationException();
    }

    public String fingerprint() {
        throw new UnsupportedOperationException();
    }

    public boolean hasTokenizer() {
        throw new UnsupportedOperationException();
    }
}
