package io.millrace.operators.routing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

class PrefixRouterTest {
    private static final int MAX_PARALLELISM = 128;

    @Test
    void promptsWithTheSameLeadingChunkShareAKey() {
        PrefixRouter router = new PrefixRouter(1, MAX_PARALLELISM);
        int[] first = prompt(7, 200, 1);
        int[] second = prompt(7, 200, 2);
        assertEquals(router.route(first, 1, null), router.route(second, 1, null));
        assertNotEquals(router.route(first, 1, null), router.route(prompt(8, 200, 1), 1, null));
        assertNotEquals(router.route(first, 1, null), router.route(first, 1, "salt"));
    }

    @Test
    void oneHotPrefixKeepsEverySubtaskBusy() {
        int parallelism = 4;
        PrefixRouter router = new PrefixRouter(parallelism, MAX_PARALLELISM);
        int[] bySubtask = new int[parallelism];
        Set<Long> keys = new HashSet<>();
        for (int i = 0; i < 2_000; i++) {
            long key = router.route(prompt(1, 150, i), 1, null);
            keys.add(key);
            bySubtask[router.subtask(key)]++;
        }
        for (int numRequests : bySubtask) {
            assertTrue(numRequests > 400, "uneven: " + Arrays.toString(bySubtask));
        }
        assertTrue(keys.size() <= 2 * parallelism, "the prefix should be stored about once a subtask: " + keys.size());
    }

    @Test
    void manyDistinctPrefixesStayOnOneSubtaskEach() {
        PrefixRouter router = new PrefixRouter(2, MAX_PARALLELISM);
        Random random = new Random(3);
        Map<Integer, Set<Long>> keysByDocument = new HashMap<>();
        int[] bySubtask = new int[2];
        for (int i = 0; i < 3_000; i++) {
            int document = random.nextInt(40);
            long key = router.route(prompt(document, 300, i), 1, null);
            keysByDocument.computeIfAbsent(document, d -> new HashSet<>()).add(key);
            bySubtask[router.subtask(key)]++;
        }
        // The very first request of all is the whole traffic for a moment, so one document may have been spread.
        long numSpread =
                keysByDocument.values().stream().filter(keys -> keys.size() > 1).count();
        assertTrue(numSpread <= 1, numSpread + " of 40 documents were spread");
        assertTrue(Math.min(bySubtask[0], bySubtask[1]) > 600, Arrays.toString(bySubtask));
    }

    /** A document's leading 128 tokens, then a question of its own. */
    private static int[] prompt(int document, int numTokens, int question) {
        int[] tokens = new int[numTokens];
        for (int i = 0; i < numTokens; i++) {
            tokens[i] = i < PrefixRouter.LEADING_CHUNK_TOKENS ? document * 1_000 + i : question;
        }
        return tokens;
    }
}
