package io.millrace.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.prefix.LoadRate.Forecast;
import org.junit.jupiter.api.Test;

/** Where computing and loading are to meet, with times that make the answer plain: a token takes 1 ns. */
class MeetingPlanTest {
    private static final MeetingPlan.StepCost ONE_A_TOKEN = (first, count) -> count;

    private static MeetingPlan plan(
            int pointer, int numChunks, int numMissing, int maxStepTokens, Forecast loads, int numAhead) {
        MeetingPlan plan = new MeetingPlan(100);
        plan.begin(pointer);
        for (int chunk = pointer / 100; chunk < numChunks; chunk++) {
            plan.add(chunk, chunk >= numMissing);
        }
        plan.plan(maxStepTokens, ONE_A_TOKEN, loads, numAhead);
        return plan;
    }

    @Test
    void equalSpeedsMeetInTheMiddle() {
        MeetingPlan plan = plan(0, 10, 0, 1000, new Forecast(100, 100, 0), 0);
        assertEquals(5, plan.numComputed());
        assertEquals(500, plan.computeEnd(1000));
        assertEquals(500, plan.nanos());
    }

    @Test
    void aSideThatCannotFinishAChunkInTimeGetsNone() {
        MeetingPlan fastLoads = plan(0, 10, 0, 1000, new Forecast(5, 5, 0), 0);
        assertEquals(0, fastLoads.numComputed());
        assertEquals(0, fastLoads.computeEnd(1000));
        MeetingPlan slowLoads = plan(0, 10, 0, 1000, new Forecast(1001, 1001, 0), 0);
        assertEquals(10, slowLoads.numComputed());
        assertEquals(Integer.MAX_VALUE, slowLoads.computeEnd(1000), "the rest of the prompt follows in the same step");
    }

    @Test
    void whatIsNotStoredIsComputed() {
        MeetingPlan plan = plan(0, 10, 3, 1000, new Forecast(1, 1, 0), 0);
        assertEquals(3, plan.numComputed());
        assertEquals(300, plan.computeEnd(1000));
    }

    @Test
    void loadsOfOthersAheadLeaveMoreToCompute() {
        assertEquals(5, plan(0, 10, 0, 1000, new Forecast(100, 100, 0), 0).numComputed());
        assertEquals(7, plan(0, 10, 0, 1000, new Forecast(100, 100, 0), 4).numComputed());
    }

    @Test
    void aChunkThatIsPartlyComputedCostsOnlyItsRest() {
        MeetingPlan plan = plan(90, 2, 0, 1000, new Forecast(50, 100, 1), 0);
        assertEquals(1, plan.numComputed());
        assertEquals(100, plan.computeEnd(200));
        assertEquals(10, plan.numTokensToCompute());
    }

    @Test
    void aStoreThatIsLeftAloneBringsNothing() {
        assertEquals(10, plan(0, 10, 0, 50, Forecast.NEVER, 0).numComputed());
    }

    @Test
    void computingStopsAtAChunkThatIsAtHand() {
        MeetingPlan plan = new MeetingPlan(100);
        plan.begin(0);
        plan.add(0, true);
        plan.add(2, true);
        plan.add(3, true);
        plan.plan(1000, ONE_A_TOKEN, new Forecast(10_000, 10_000, 0), 0);
        assertEquals(3, plan.numComputed());
        assertEquals(100, plan.computeEnd(400));
    }
}
