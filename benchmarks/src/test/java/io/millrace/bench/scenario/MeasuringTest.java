package io.millrace.bench.scenario;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.plan.NamedShapes;
import java.util.concurrent.atomic.AtomicInteger;
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
        SteadyWindow window = new SteadyWindow(100, 10);
        long second = 1_000_000_000L;
        window.observe(1 * second, 9, 900); // a slot's first request still runs
        window.observe(2 * second, 10, 1000);
        window.observe(4 * second, 50, 5000);
        window.observe(6 * second, 90, 9000);
        window.observe(7 * second, 90, 9000); // seen again: the count was true before
        window.observe(8 * second, 91, 9100); // slots stand empty
        window.observe(9 * second, 100, 10_000);
        assertEquals(2000, window.tokensPerSecond());
        assertEquals(4, window.seconds());
        assertTrue(Double.isNaN(new SteadyWindow(100, 10).tokensPerSecond()));
        assertThrows(IllegalArgumentException.class, () -> new SteadyWindow(20, 10));
    }

    @Test
    void warmUpEndsWhenTimesSettleOrTimeIsUp() {
        AtomicInteger runs = new AtomicInteger();
        WarmUp.untilStable(60, () -> runs.incrementAndGet() <= 9 ? 100.0 / runs.get() : 1.0);
        assertEquals(18, runs.get()); // three windows of falling times, a first stable one and two that agree with it
        runs.set(0);
        WarmUp.untilStable(0.05, () -> {
            Thread.onSpinWait();
            return runs.incrementAndGet();
        });
        assertTrue(runs.get() > 0);
    }

    @Test
    void attentionCountsEveryPairOnceOfScoresAndValues() {
        // 30 layers, 9 heads of 64: 2 x 2 operations a dimension and pair, 1 + 2 + 3 pairs.
        assertEquals(
                4.0 * 30 * 9 * 64 * 6,
                PrefillScenario.attentionFlops(NamedShapes.find("smollm2-135m").orElseThrow(), 3));
    }
}
