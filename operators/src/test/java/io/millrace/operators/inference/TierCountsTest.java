package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.prefix.StoreStats;
import io.millrace.prefix.TierStats;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class TierCountsTest {
    /** Chunks that left memory before their turn, and those that the store did not take: both were worth storing. */
    @Test
    void allDroppedChunksAreCounted() {
        StoreStats store = new StoreStats(0, 0, 0, 0, 0, 5, 0, 0, 0);
        TierStats stats = new TierStats(0, 0, Map.of(), Map.of(), 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, Map.of(), store);
        TierCounts counts = TierCounts.of(RequestTallies.sum(List.of()), stats);
        assertEquals(7, counts.numChunksDropped());
        assertEquals(14, counts.plus(counts).numChunksDropped());
    }
}
