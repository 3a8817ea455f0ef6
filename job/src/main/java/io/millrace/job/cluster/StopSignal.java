package io.millrace.job.cluster;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A request to stop that anybody may make once, from a signal handler or a test; the job's loop waits on it. Thread-safe. */
public final class StopSignal {

    private final CountDownLatch latch = new CountDownLatch(1);

    public void request() {
        latch.countDown();
    }

    public boolean isRequested() {
        return latch.getCount() == 0;
    }

    /** Waits until a stop is requested or the time is over; tells whether it is requested. */
    public boolean await(Duration timeout) throws InterruptedException {
        return latch.await(timeout.toNanos(), TimeUnit.NANOSECONDS);
    }
}
