package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class WaitingRequestsTest {

    private final WaitingRequests waiting = new WaitingRequests();

    @Test
    void whatIsPostponedComesLastAndInItsPlaceAgainWhenRecalled() {
        for (int i = 0; i < 4; i++) {
            waiting.add(new WaitingRequests.Waiting(i, "r" + i, 1, 0, i, false));
        }
        assertTrue(waiting.postponeFirst());
        assertTrue(waiting.postponeFirst());
        assertEquals(4, waiting.size());
        assertEquals("r2", waiting.first().uid());
        waiting.recallPostponed();
        assertEquals("r0", waiting.first().uid());
        assertTrue(waiting.postponeFirst());
        List<String> order = new ArrayList<>();
        while (!waiting.isEmpty()) {
            order.add(waiting.removeFirst().uid());
        }
        assertEquals(List.of("r1", "r2", "r3", "r0"), order);
    }

    @Test
    void theLastOnesAreNotPostponedForNobody() {
        waiting.add(new WaitingRequests.Waiting(1, "only", 1, 0, 1, false));
        assertTrue(waiting.postponeFirst());
        assertFalse(waiting.postponeFirst());
        assertEquals("only", waiting.first().uid());
    }
}
