package io.millrace.engine;

import io.millrace.backend.Backend;
import io.millrace.backend.BatchInput;
import io.millrace.backend.KvTransfer;
import io.millrace.backend.StepHandle;

/** A backend whose steps take a time that the test says, on a clock that the test keeps. */
final class TimedBackend implements Backend {
    /** What passes while a step runs. */
    interface Time {
        void step(BatchInput input);
    }

    private final Backend backend;
    private final Time time;

    TimedBackend(Backend backend, Time time) {
        this.backend = backend;
        this.time = time;
    }

    @Override
    public StepHandle submit(BatchInput input) {
        StepHandle handle = backend.submit(input);
        return () -> {
            time.step(input);
            return handle.await();
        };
    }

    @Override
    public int numBlocks() {
        return backend.numBlocks();
    }

    @Override
    public long bytesPerBlock() {
        return backend.bytesPerBlock();
    }

    @Override
    public KvTransfer kvTransfer() {
        return backend.kvTransfer();
    }

    @Override
    public String numericFingerprint() {
        return backend.numericFingerprint();
    }

    @Override
    public void close() {
        backend.close();
    }
}
