package io.millrace.job.recovery;

import io.millrace.backend.Backend;
import io.millrace.backend.BackendConfig;
import io.millrace.backend.BackendProvider;
import io.millrace.backend.BatchInput;
import io.millrace.backend.StepHandle;
import java.util.ServiceLoader;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The CPU device with a loose contact: the steps of given numbers, counted over all engines of the process, fail in a way
 * that cannot be traced to a sequence. Everything else is the real thing.
 */
public final class FlakyCpuProvider implements BackendProvider {
    public static final String NAME = "flaky-cpu";

    private static final long STEP_MILLIS = 20;

    private static final AtomicInteger NUM_STEPS = new AtomicInteger();
    private static volatile Set<Integer> failingSteps = Set.of();

    /** Starts counting anew. */
    static void failAt(Set<Integer> steps) {
        NUM_STEPS.set(0);
        failingSteps = steps;
    }

    static int numSteps() {
        return NUM_STEPS.get();
    }

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public Backend open(BackendConfig config) {
        for (BackendProvider provider : ServiceLoader.load(BackendProvider.class)) {
            if (provider.name().equals("cpu")) {
                return new Flaky(provider.open(config));
            }
        }
        throw new IllegalStateException("no cpu device");
    }

    private record Flaky(Backend device) implements Backend {
        @Override
        public StepHandle submit(BatchInput input) {
            pause();
            StepHandle handle = device.submit(input);
            int step = NUM_STEPS.incrementAndGet();
            if (!failingSteps.contains(step)) {
                return handle;
            }
            return () -> {
                handle.await();
                throw new IllegalStateException("step " + step + " was made to fail");
            };
        }

        /**
         * Makes steps as slow as a larger model's: several checkpoints then complete between two faults on any machine. Faults
         * with no progress in between would be laid at the door of the requests.
         */
        private static void pause() {
            try {
                Thread.sleep(STEP_MILLIS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public int numBlocks() {
            return device.numBlocks();
        }

        @Override
        public long bytesPerBlock() {
            return device.bytesPerBlock();
        }

        @Override
        public String numericFingerprint() {
            return device.numericFingerprint();
        }

        @Override
        public void close() {
            device.close();
        }
    }
}
