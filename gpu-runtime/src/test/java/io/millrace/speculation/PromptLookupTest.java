package io.millrace.speculation;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class PromptLookupTest {
    private static int find(int min, int max, int... tokenIds) {
        return new PromptLookup(min, max, AcceptanceRule.COUPLED).find(tokenIds, tokenIds.length);
    }

    @Test
    void theLongestMatchWinsThenTheLatest() {
        assertEquals(3, find(1, 3, 7, 1, 2, 9, 8, 2, 5, 1, 2), "1 2 before 2 alone");
        assertEquals(2, find(1, 1, 1, 2, 5, 1, 3, 2), "one token is all that is compared");
        assertEquals(6, find(2, 3, 0, 1, 2, 3, 1, 2, 4, 1, 2), "the later of two");
        assertEquals(3, find(2, 4, 0, 1, 2, 4, 1, 2, 0, 1, 2), "three tokens match there");
        assertEquals(-1, find(2, 3, 1, 2, 3, 9, 2), "one token is too few");
        assertEquals(-1, find(1, 3, 4));
    }

    @Test
    void agreesWithANaiveSearch() {
        for (long seed = 0; seed < 3000; seed++) {
            Random random = new Random(seed);
            int[] ids = random.ints(1 + random.nextInt(30), 0, 3).toArray();
            int min = 1 + random.nextInt(3);
            int max = min + random.nextInt(4);
            assertEquals(naive(ids, min, max), find(min, max, ids), "seed " + seed);
        }
    }

    private static int naive(int[] ids, int min, int max) {
        for (int length = max; length >= min; length--) {
            for (int from = ids.length - 1; from >= length; from--) {
                if (Arrays.equals(ids, from - length, from, ids, ids.length - length, ids.length)) {
                    return from;
                }
            }
        }
        return -1;
    }

    @Test
    void aRepetitionGoesOnWithItsOwnProposals() {
        SequenceGroup group = new SequenceGroup(new SequenceGroup.Settings(
                "r", new int[] {5, 6, 5, 6}, SamplingParams.defaults(), 0, 0, "", false, new int[0]));
        Sequence sequence = group.addSequence(0, new int[] {5});
        new PromptLookup(1, 3, AcceptanceRule.COUPLED).propose(List.of(sequence), new int[] {5});
        assertEquals(5, sequence.numProposedTokens());
        assertEquals(5, sequence.numTokens());
        assertArrayEquals(new int[] {5, 6, 5, 6, 5, 6, 5, 6, 5, 6}, Arrays.copyOf(sequence.tokenIds(), 10));
        sequence.acceptProposals(2);
        assertEquals(7, sequence.numTokens());
        assertEquals(0, sequence.numProposedTokens());
    }
}
