package io.millrace.job.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class SignalsTest {

    @Test
    void signalsThatComeTogetherAreOneWishToStop() throws Exception {
        StopSignal stop = new StopSignal();
        Semaphore actions = new Semaphore(0);
        try (Signals signals = Signals.onStop(() -> {
            stop.request();
            actions.release();
        })) {
            assertTrue(signals != null);
            raise("TERM");
            assertTrue(stop.await(Duration.ofSeconds(10)), "the first signal asks for a stop");
            raise("INT");
            raise("TERM");
            assertTrue(actions.tryAcquire(10, TimeUnit.SECONDS));
            Thread.sleep(200);
            assertEquals(0, actions.availablePermits(), "the ones behind it neither end the process nor ask again");
        }
    }

    /** By reflection, since the compiler warns of every other use. */
    private static void raise(String name) throws ReflectiveOperationException {
        Class<?> type = Class.forName("sun.misc.Signal");
        Object signal = type.getConstructor(String.class).newInstance(name);
        type.getMethod("raise", type).invoke(null, signal);
    }
}
