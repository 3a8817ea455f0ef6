package io.millrace.bench.scenario;

import io.millrace.backend.Backend;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BackendProvider;
import io.millrace.backend.BatchInput;
import io.millrace.backend.KvTransfer;
import io.millrace.backend.StepHandle;
import io.millrace.model.ModelDirectory;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * A device that sleeps before it computes more than one token, long enough that nobody would compute what can be loaded: so
 * an engine shows what loading alone takes, with all that belongs to it (reading, checksums, copies, the last token's step).
 */
final class SlowComputeProvider implements BackendProvider {
    private static final long NANOS_PER_TOKEN = TimeUnit.MILLISECONDS.toNanos(10);

    private final BackendProvider provider;

    SlowComputeProvider(BackendProvider provider) {
        this.provider = provider;
    }

    @Override
    public String name() {
        return provider.name();
    }

    @Override
    public ModelDirectory openModel(Path directory) {
        return provider.openModel(directory);
    }

    @Override
    public Backend open(BackendConfig config) {
        return new SlowBackend(provider.open(config));
    }

    private record SlowBackend(Backend backend) implements Backend {

        @Override
        public StepHandle submit(BatchInput input) {
            if (input.numTokens() > 1) {
                long end = System.nanoTime() + input.numTokens() * NANOS_PER_TOKEN;
                for (long left; (left = end - System.nanoTime()) > 0; ) {
                    LockSupport.parkNanos(left);
                }
            }
            return backend.submit(input);
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
}
