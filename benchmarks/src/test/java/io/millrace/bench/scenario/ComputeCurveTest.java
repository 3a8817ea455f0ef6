package io.millrace.bench.scenario;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class ComputeCurveTest {
    @Test
    void liesOnAStraightLineBetweenSteps() {
        ComputeCurve curve = new ComputeCurve();
        curve.add(100, 1);
        curve.add(100, 2);
        curve.add(300, 4);
        assertEquals(0, curve.secondsUntil(0), 1e-12);
        assertEquals(0.5, curve.secondsUntil(50), 1e-12);
        assertEquals(1, curve.secondsUntil(100), 1e-12);
        assertEquals(3, curve.secondsUntil(200), 1e-12);
        assertEquals(4, curve.secondsUntil(301), 1e-12);
    }

    @Test
    void growsPastItsFirstSteps() {
        ComputeCurve curve = new ComputeCurve();
        for (int i = 1; i <= 40; i++) {
            curve.add(10 * i, i);
        }
        assertEquals(33.5, curve.secondsUntil(335), 1e-12);
    }
}
