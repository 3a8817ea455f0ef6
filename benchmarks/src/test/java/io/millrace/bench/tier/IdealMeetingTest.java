package io.millrace.bench.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class IdealMeetingTest {
    private static double[] multiples(double step, int count) {
        double[] times = new double[count + 1];
        for (int i = 0; i <= count; i++) {
            times[i] = i * step;
        }
        return times;
    }

    @Test
    void equalSidesMeetInTheMiddle() {
        assertEquals(new IdealMeeting(4.5, 4), IdealMeeting.of(multiples(1, 8), multiples(1, 8), 0.5, 0.1));
    }

    @Test
    void theFasterSideTakesMore() {
        // Computing 6 chunks takes 6, loading 2 takes 6; one chunk more on either side would take longer.
        assertEquals(new IdealMeeting(6, 6), IdealMeeting.of(multiples(1, 8), multiples(3, 8), 0, 0));
        assertEquals(new IdealMeeting(6, 2), IdealMeeting.of(multiples(3, 8), multiples(1, 8), 0, 0));
    }

    @Test
    void aSideThatCannotFinishAChunkInTimeIsLeftOut() {
        assertEquals(new IdealMeeting(8.1, 8), IdealMeeting.of(multiples(1, 8), multiples(9, 8), 0.5, 0.1));
        assertEquals(new IdealMeeting(8.5, 0), IdealMeeting.of(multiples(9, 8), multiples(1, 8), 0.5, 0.1));
    }

    @Test
    void theLastStepCountsOnlyWhereSomethingWasLoaded() {
        // Loading one chunk would spare nothing: 7 + 2 is more than 8 + 0.1.
        assertEquals(new IdealMeeting(8.1, 8), IdealMeeting.of(multiples(1, 8), multiples(7, 8), 2, 0.1));
    }

    @Test
    void laterChunksCostMore() {
        double[] compute = {0, 1, 3, 6, 10};
        assertEquals(new IdealMeeting(4, 2), IdealMeeting.of(compute, multiples(2, 4), 0, 0));
    }
}
