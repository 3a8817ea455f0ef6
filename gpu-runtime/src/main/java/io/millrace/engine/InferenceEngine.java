package io.millrace.engine;

import io.millrace.backend.BackendProvider;

/** Placeholder until part C lands. */
public final class InferenceEngine implements AutoCloseable {
    public static InferenceEngine open(EngineConfig config) {
        throw new UnsupportedOperationException();
    }

    public static InferenceEngine open(EngineConfig config, BackendProvider provider) {
        throw new UnsupportedOperationException();
    }

    public void start(String threadName, StepListener listener) {
        throw new UnsupportedOperationException();
    }

    public StepReport step() {
        throw new UnsupportedOperationException();
    }

    public void submit(Request request) {
        throw new UnsupportedOperationException();
    }

    public void cancel(String requestId) {
        throw new UnsupportedOperationException();
    }

    public boolean isIdle() {
        throw new UnsupportedOperationException();
    }

    public EngineStats stats() {
        throw new UnsupportedOperationException();
    }

    public String numericFingerprint() {
        throw new UnsupportedOperationException();
    }

    public int maxModelLen() {
        throw new UnsupportedOperationException();
    }

    public int maxSequenceTokens() {
        throw new UnsupportedOperationException();
    }

    @Override
    public void close() {
        throw new UnsupportedOperationException();
    }
}
