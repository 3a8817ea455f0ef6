package io.millrace.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.EnumSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Pauses to the nanosecond. */
class StoreHealthTest {
    private static final long SECOND = 1_000_000_000L;

    private static void fail(StoreHealth health, int count, long now) {
        for (int i = 0; i < count; i++) {
            health.failed(TierMiss.READ_FAILED, "a test's", now);
        }
    }

    @Test
    void threeFailuresInARowPauseForASecond() {
        StoreHealth health = new StoreHealth();
        fail(health, StoreHealth.MAX_FAILURES - 1, 5);
        assertTrue(health.mayAsk(5));
        fail(health, 1, 5);
        assertFalse(health.mayAsk(5 + SECOND - 1));
        assertTrue(health.mayAsk(5 + SECOND));
    }

    @Test
    void successEndsTheRow() {
        StoreHealth health = new StoreHealth();
        fail(health, StoreHealth.MAX_FAILURES - 1, 0);
        health.succeeded();
        fail(health, StoreHealth.MAX_FAILURES - 1, 0);
        assertTrue(health.mayAsk(0));
    }

    @Test
    void everyFurtherPauseIsTwiceAsLongUpTo64SecondsUntilASuccess() {
        StoreHealth health = new StoreHealth();
        fail(health, StoreHealth.MAX_FAILURES, 0);
        long now = SECOND;
        for (long seconds : new long[] {2, 4, 8, 16, 32, 64, 64}) {
            assertTrue(health.mayAsk(now));
            fail(health, 1, now);
            assertFalse(health.mayAsk(now + seconds * SECOND - 1), "after a pause of " + seconds + " s");
            now += seconds * SECOND;
        }
        assertTrue(health.mayAsk(now));
        health.succeeded();
        fail(health, StoreHealth.MAX_FAILURES, now);
        assertTrue(health.mayAsk(now + SECOND));
    }

    @Test
    void whatIsNotThereIsNoFailure() {
        Set<TierMiss> failures = EnumSet.noneOf(TierMiss.class);
        for (TierMiss miss : TierMiss.values()) {
            if (miss.isFailure()) {
                failures.add(miss);
            }
        }
        assertEquals(EnumSet.of(TierMiss.READ_FAILED, TierMiss.REFUSED, TierMiss.TIMED_OUT), failures);
    }
}
