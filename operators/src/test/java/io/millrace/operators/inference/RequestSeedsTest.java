package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import org.junit.jupiter.api.Test;

class RequestSeedsTest {
    private static final long SEED_OF_A = 62_248_371_280_224_118L;

    @Test
    void seedsNeverChangeBetweenReleases() {
        // Users rely on it: the same id and --seed must draw the same samples after an upgrade.
        assertEquals(SEED_OF_A, RequestSeeds.seed(0, "a", 0, null));
    }

    @Test
    void everyPartCounts() {
        long seed = RequestSeeds.seed(1, "a", 2, 3L);
        assertNotEquals(seed, RequestSeeds.seed(2, "a", 2, 3L));
        assertNotEquals(seed, RequestSeeds.seed(1, "b", 2, 3L));
        assertNotEquals(seed, RequestSeeds.seed(1, "a", 1, 3L));
        assertNotEquals(seed, RequestSeeds.seed(1, "a", 2, 4L));
        assertNotEquals(seed, RequestSeeds.seed(1, "a", 2, null));
        assertNotEquals(RequestSeeds.seed(1, "a", 2, null), RequestSeeds.seed(1, "a", 2, 0L));
    }
}
