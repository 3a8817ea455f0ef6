package io.millrace.bench.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class TokenBucketTest {
    private static final long MILLI = 1_000_000;

    @Test
    void withoutABucketEveryByteTakesItsTime() {
        TokenBucket bucket = new TokenBucket(1000, 0, 0); // a byte a millisecond
        assertEquals(100 * MILLI, bucket.take(100, 0));
        assertEquals(150 * MILLI, bucket.take(50, 0));
        assertEquals(160 * MILLI, bucket.take(10, 150 * MILLI));
    }

    @Test
    void idleTimeIsKeptOnlyAsFarAsTheBucketHolds() {
        TokenBucket bucket = new TokenBucket(1000, 30, 0);
        assertEquals(0, bucket.take(30, 0));
        assertEquals(1000 * MILLI, bucket.take(30, 1000 * MILLI)); // full again
        assertEquals(1020 * MILLI, bucket.take(20, 1000 * MILLI));
        TokenBucket none = new TokenBucket(1000, 0, 0);
        assertEquals(5010 * MILLI, none.take(10, 5000 * MILLI));
    }

    @Test
    void timeThatRunsBackwardCountsAsNone() {
        TokenBucket bucket = new TokenBucket(1000, 0, 100 * MILLI);
        assertEquals(110 * MILLI, bucket.take(10, 50 * MILLI));
    }

    @Test
    void refusesARateOfNothing() {
        assertThrows(IllegalArgumentException.class, () -> new TokenBucket(0, 0, 0));
    }
}
