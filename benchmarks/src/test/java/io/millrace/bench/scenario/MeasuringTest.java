package io.millrace.bench.scenario;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.plan.NamedShapes;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class MeasuringTest {
    @Test
    void theMedianIsTheMiddle() {
        Samples samples = new Samples();
        assertTrue(Double.isNaN(samples.median()));
        samples.add(5);
        assertEquals(5, samples.median());
        samples.add(1);
        assertEquals(3, samples.median());
        samples.add(100);
        assertEquals(5, samples.median());
        assertEquals(106, samples.sum());
        for (int i = 0; i < 40; i++) {
            samples.add(7);
        }
        assertEquals(7, samples.median());
        assertEquals(43, samples.count());
    }

    @Test
    void theSteadyWindowLeavesOutRampAndTail() {
        AtomicLong cpuNanos = new AtomicLong();
        AtomicLong nanos = new AtomicLong();
        SteadyWindow window = new SteadyWindow(100, 10, cpuNanos::get, nanos::get);
        long second = 1_000_000_000L;
        window.observe(1 * second, 9, 900); // a slot's first request still runs
        nanos.set(100 * second);
        window.observe(2 * second, 10, 1000);
        window.observe(4 * second, 50, 5000);
        nanos.set(105 * second);
        cpuNanos.set(9 * second);
        window.observe(6 * second, 90, 9000);
        nanos.set(106 * second);
        window.observe(7 * second, 90, 9000); // seen again: the count was true before
        assertFalse(window.isOver());
        window.observe(8 * second, 91, 9100); // slots stand empty
        assertTrue(window.isOver());
        window.observe(9 * second, 90, 9200);
        assertEquals(2000, window.tokensPerSecond());
        assertEquals(4, window.seconds());
        assertEquals(1.8, window.computeCores());
        assertTrue(Double.isNaN(new SteadyWindow(100, 10).tokensPerSecond()));
        assertTrue(Double.isNaN(new SteadyWindow(100, 10).computeCores()));
        assertThrows(IllegalArgumentException.class, () -> new SteadyWindow(20, 10));
    }

    @Test
    void warmUpEndsWhenTimesSettleOrTimeIsUp() {
        AtomicInteger runs = new AtomicInteger();
        WarmUp.untilStable(60, () -> runs.incrementAndGet() <= 9 ? 100.0 / runs.get() : 1.0, new Compilers(() -> 0));
        assertEquals(18, runs.get()); // three windows of falling times, a first stable one and two that agree with it
        runs.set(0);
        WarmUp.untilStable(0.05, () -> {
            Thread.onSpinWait();
            return runs.incrementAndGet();
        });
        assertTrue(runs.get() > 0);
    }

    @Test
    void warmUpGoesOnWhileCompilersWork() {
        AtomicInteger runs = new AtomicInteger();
        WarmUp.untilStable(
                60,
                () -> {
                    runs.incrementAndGet();
                    return 1.0;
                },
                // Minutes of work in a window of microseconds, until the fourth.
                new Compilers(() -> Math.min(runs.get(), 12) * 60_000L));
        assertEquals(18, runs.get()); // the two windows after it agree, and nothing was compiled in them
    }

    @Test
    void attentionCountsEveryPairOnceOfScoresAndValues() {
        // 30 layers, 9 heads of 64: 2 x 2 operations a dimension and pair, 1 + 2 + 3 pairs, in the last layer 3.
        assertEquals(
                4.0 * 9 * 64 * (29 * 6 + 3),
                PrefillScenario.attentionFlops(NamedShapes.find("smollm2-135m").orElseThrow(), 3));
    }
}
