package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.engine.StepReport;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class ReportRingTest {
    @Test
    void reportsShareOneMailUntilItRuns() throws InterruptedException {
        AtomicInteger numMails = new AtomicInteger();
        ReportRing ring = new ReportRing(numMails::incrementAndGet);
        ring.onStep(report(1));
        ring.onStep(report(2));
        assertEquals(1, numMails.get());
        ring.beginMail();
        assertEquals(1, ring.poll().step());
        assertEquals(2, ring.poll().step());
        assertNull(ring.poll());
        ring.onStep(report(3));
        assertEquals(2, numMails.get());
    }

    @Test
    void aFullRingPausesTheEngineUntilTheTaskTakesReports() throws InterruptedException {
        ReportRing ring = new ReportRing(() -> {});
        AtomicInteger numPut = new AtomicInteger();
        Thread engine = new Thread(() -> {
            try {
                for (int i = 0; i < 200; i++) {
                    ring.onStep(report(i));
                    numPut.incrementAndGet();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        engine.start();
        engine.join(300);
        assertTrue(engine.isAlive(), "the engine should have paused");
        assertEquals(64, numPut.get());
        for (int i = 0; i < 200; i++) {
            StepReport next = ring.poll();
            while (next == null) {
                Thread.onSpinWait();
                next = ring.poll();
            }
            assertEquals(i, next.step());
        }
        engine.join(TimeUnit.SECONDS.toMillis(10));
        assertFalse(engine.isAlive());
    }

    @Test
    void closingFreesAnEngineThatWaits() throws InterruptedException {
        ReportRing ring = new ReportRing(() -> {});
        CountDownLatch started = new CountDownLatch(1);
        Thread engine = new Thread(() -> {
            try {
                for (int i = 0; i < 65; i++) {
                    ring.onStep(report(i));
                    started.countDown();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        engine.start();
        started.await();
        ring.close();
        engine.join(TimeUnit.SECONDS.toMillis(10));
        assertFalse(engine.isAlive());
    }

    @Test
    void aDeathIsSeenAfterTheReportsBeforeIt() throws InterruptedException {
        ReportRing ring = new ReportRing(() -> {});
        ring.onStep(report(1));
        Throwable cause = new IllegalStateException("out of luck");
        ring.onEngineDeath(cause);
        ring.beginMail();
        assertSame(cause, ring.death());
        assertEquals(1, ring.poll().step());
    }

    private static StepReport report(long step) {
        return new StepReport(step, List.of(), List.of(), List.of());
    }
}
