package io.millrace.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Estimates follow what happens within a few observations. */
class LoadRateTest {
    @Test
    void followsTheDiskBothWays() {
        LoadRate rate = new LoadRate();
        for (int i = 0; i < 5; i++) {
            rate.observe(100, i);
        }
        assertEquals(100, rate.chunkNanos(5), 1e-9);
        for (int i = 0; i < 4; i++) {
            rate.observe(1000, 5 + i);
        }
        assertTrue(rate.chunkNanos(9) > 850, "slower");
        for (int i = 0; i < 8; i++) {
            rate.observe(100, 9 + i);
        }
        assertTrue(rate.chunkNanos(17) < 120, "faster");
    }

    @Test
    void whatIsOverdueMakesTheRestLookSlow() {
        LoadRate rate = new LoadRate();
        rate.observe(100, 0);
        assertEquals(60 + 2 * 100, rate.forecast(2, 40, 0).nanos(3), 1e-9);
        assertEquals(400 + 2 * 500, rate.forecast(2, 500, 0).nanos(3), 1e-9);
    }

    @Test
    void aLoadGivenUpSaysSomethingToo() {
        LoadRate rate = new LoadRate();
        assertEquals(0, rate.chunkNanos(0));
        rate.observeGivenUp(700, 1);
        assertEquals(1400, rate.chunkNanos(1), 1e-9);
        rate.observe(300, 2);
        assertEquals(300, rate.chunkNanos(2), 1e-9);
        rate.observeGivenUp(200, 3);
        assertEquals(300, rate.chunkNanos(3), 1e-9, "it was not due yet");
    }

    @Test
    void aBadMomentIsNotBelievedForEver() {
        LoadRate rate = new LoadRate();
        for (int i = 0; i < 50; i++) {
            rate.observe(100, i);
        }
        rate.observe(100_000, 50);
        assertFalse(rate.isStale(51));
        long later = 11_000_000_000L;
        assertTrue(rate.isStale(later) && rate.chunkNanos(later) < rate.chunkNanos(51));
    }

    @Test
    void positionsThatHardlyDifferTeachNoSlope() {
        ComputeRate compute = new ComputeRate();
        compute.observe(256, 256 * 63, 256, 20_000_000);
        compute.observe(129, 129 * 79, 128, 12_500_000); // dearer, but not for 16 positions more
        assertTrue(compute.nanos(1, 0) > 0.98 * compute.nanos(1, 64));
    }

    @Test
    void stepsTeachTokensAndPositions() {
        ComputeRate compute = new ComputeRate();
        for (int first = 0; first < 8192; first += 512) {
            double positions = ComputeRate.sumPositions(first, first + 512);
            compute.observe(512, positions, 512, Math.round(512 * 1000 + positions / 2));
        }
        double expected = 128 * 1000 + ComputeRate.sumPositions(0, 128) / 2;
        assertEquals(expected, compute.rangeNanos(0, 128), 0.02 * expected);
        for (int i = 0; i < 6; i++) {
            double positions = ComputeRate.sumPositions(8192, 8704);
            compute.observe(512, positions, 512, 3 * Math.round(512 * 1000 + positions / 2));
        }
        double slower = 3 * (512 * 1000 + ComputeRate.sumPositions(8704, 9216) / 2);
        assertEquals(slower, compute.rangeNanos(8704, 9216), 0.05 * slower);
    }
}
