package io.millrace.bench.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class SignTestTest {
    @Test
    void ranksAreThoseOfTheBinomialDistribution() {
        assertEquals(0, SignTest.rank(4)); // 1/16 is more than 5 %
        assertEquals(1, SignTest.rank(5));
        assertEquals(2, SignTest.rank(9)); // P(X < 2) = 10/512
        assertEquals(6, SignTest.rank(20)); // P(X < 6) = 0.0207, P(X < 7) = 0.0577
    }

    @Test
    void boundsAreOrderStatistics() {
        double[] values = {9, 1, 8, 2, 7, 3, 6, 4, 5};
        assertEquals(2, SignTest.lowerBound(values));
        assertEquals(8, SignTest.upperBound(values));
        assertTrue(Double.isNaN(SignTest.lowerBound(new double[] {1, 2, 3})));
    }
}
