package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class RowCountsTest {
    @Test
    void rowsAreCutWithoutPaddingWhateverIsAccepted() {
        for (long seed = 0; seed < 2000; seed++) {
            Random random = new Random(seed);
            boolean[] accepted = new boolean[RowCounts.CANDIDATES.length];
            for (int i = 0; i < accepted.length; i++) {
                accepted[i] = random.nextInt(4) < seed % 5 || RowCounts.CANDIDATES[i] == RowCounts.ANCHOR;
            }
            RowCounts counts = new RowCounts(accepted);
            int limit = RowCounts.ANCHOR + random.nextInt(900);
            int most = counts.mostWithoutPadding(limit);
            String what = "seed " + seed + ", limit " + limit + ", accepted " + Arrays.toString(accepted);
            assertTrue(most >= RowCounts.ANCHOR && most <= limit, what + ": " + most);
            int remaining = most;
            while (remaining > 0) {
                remaining -= RowCounts.CANDIDATES[counts.next(remaining)];
            }
            assertEquals(0, remaining, what + ": padding of " + most);
        }
    }

    @Test
    void aWholeSliceIsCutWhereAllCountsAreAccepted() {
        boolean[] all = new boolean[RowCounts.CANDIDATES.length];
        Arrays.fill(all, true);
        assertEquals(512, new RowCounts(all).mostWithoutPadding(512));
    }
}
