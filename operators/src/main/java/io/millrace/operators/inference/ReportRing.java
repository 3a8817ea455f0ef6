package io.millrace.operators.inference;

import io.millrace.engine.StepListener;
import io.millrace.engine.StepReport;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The bounded channel from the engine thread to the task thread. The engine thread puts a report and makes sure that one
 * mail is on its way; when the ring is full it pauses, and the engine with it. Once closed it swallows reports, so that an
 * engine being stopped cannot hang in it.
 */
final class ReportRing implements StepListener {
    private static final int CAPACITY = 64;
    private static final long OFFER_MILLIS = 100;

    private final ArrayBlockingQueue<StepReport> reports = new ArrayBlockingQueue<>(CAPACITY);
    private final AtomicBoolean mailPosted = new AtomicBoolean();
    private final Runnable postMail;
    private volatile Throwable death;
    private volatile boolean closed;

    /** @param postMail posts a mail that will call {@link #beginMail()} and take all reports; called by the engine thread */
    ReportRing(Runnable postMail) {
        this.postMail = postMail;
    }

    @Override
    public void onStep(StepReport report) throws InterruptedException {
        while (!closed && !reports.offer(report, OFFER_MILLIS, TimeUnit.MILLISECONDS)) {
            post();
        }
        post();
    }

    @Override
    public void onEngineDeath(Throwable cause) {
        death = cause;
        post();
    }

    private void post() {
        if (!closed && mailPosted.compareAndSet(false, true)) {
            postMail.run();
        }
    }

    /** Task thread: from here on a new report posts a new mail. */
    void beginMail() {
        mailPosted.set(false);
    }

    /** Task thread: the next report, or null. */
    StepReport poll() {
        return reports.poll();
    }

    /** What killed the engine thread, or null. Reports put before are still in the ring. */
    Throwable death() {
        return death;
    }

    void close() {
        closed = true;
        reports.clear();
    }
}
