package io.millrace.bench.scenario;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.bench.report.Check;
import io.millrace.bench.report.Report;
import org.junit.jupiter.api.Test;

class FlinkScenarioTest {
    private static Check check(int numPairsAimedAt, int numCheckpoints, double... ratios) {
        Samples samples = new Samples();
        for (double ratio : ratios) {
            samples.add(ratio);
        }
        Report report = new Report("flink");
        FlinkScenario.check(report, numPairsAimedAt, samples, numCheckpoints);
        assertEquals(1, report.checks().size());
        return report.checks().get(0);
    }

    @Test
    void theMedianOfEnoughPairsIsHeldAgainstTheLimit() {
        Check held = check(10, 3, 0.9, 0.98, 0.99, 1.1, 0.5);
        assertEquals(0.98, held.value());
        assertTrue(held.ok());
        assertFalse(check(10, 3, 0.9, 0.96, 0.99, 1.1, 0.5).ok());
    }

    @Test
    void withFewerPairsOrWithoutCheckpointsNothingIsSaid() {
        Check fewCount = check(10, 3, 0.98, 0.98, 0.98, 0.98);
        assertNull(fewCount.value());
        assertNull(fewCount.ok());
        assertFalse(fewCount.name().contains("--full"), fewCount.name());
        assertNull(check(10, 0, 0.98, 0.98, 0.98, 0.98, 0.98).ok());
    }

    @Test
    void aLookNamesTheRunThatCanAnswer() {
        Check look = check(2, 6, 1.0, 1.0);
        assertNull(look.ok());
        assertTrue(look.name().endsWith("--full)"), look.name());
    }
}
