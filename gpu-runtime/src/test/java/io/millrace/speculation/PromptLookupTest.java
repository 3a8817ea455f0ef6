package io.millrace.speculation;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class PromptLookupTest {
    private static int[] guesses(int min, int max, int limit, double minChance, int... tokenIds) {
        return new PromptLookup(min, max, AcceptanceRule.COUPLED).guesses(tokenIds, tokenIds.length, limit, minChance);
    }

    @Test
    void placesVoteAndEqualVotesGoToTheLatest() {
        assertArrayEquals(new int[] {9}, guesses(2, 3, 1, 0, 1, 2, 9, 8, 2, 5, 1, 2));
        assertArrayEquals(new int[] {3}, guesses(1, 1, 1, 0, 1, 2, 5, 2, 3, 2, 3, 1, 2));
        assertArrayEquals(new int[] {4}, guesses(2, 3, 1, 0, 7, 1, 2, 3, 8, 1, 2, 4, 9, 1, 2));
        assertArrayEquals(new int[] {}, guesses(2, 3, 1, 0, 1, 2, 3, 9, 2));
        assertArrayEquals(new int[] {}, guesses(1, 3, 1, 0, 4));
    }

    @Test
    void stopsWhereThePlacesDisagree() {
        // 1 2 3 was filled in with 7, 8 and 9, and 4 5 followed each time.
        int[] form = {1, 2, 3, 7, 4, 5, 1, 2, 3, 8, 4, 5, 1, 2, 3, 9, 4, 5, 1};
        assertArrayEquals(new int[] {2, 3}, guesses(1, 4, 6, 0.4, form));
        int[] filled = Arrays.copyOf(form, form.length + 3);
        filled[form.length] = 2;
        filled[form.length + 1] = 3;
        filled[form.length + 2] = 9;
        assertArrayEquals(new int[] {4, 5, 1, 2, 3, 9}, guesses(1, 4, 6, 0, filled));
    }

    @Test
    void aRepetitionGoesOnWithItsOwnProposals() {
        Sequence sequence = sequence(new int[] {5, 6, 5, 6}, 5);
        new PromptLookup(1, 3, AcceptanceRule.COUPLED).propose(List.of(sequence), new int[] {5}, 0);
        assertEquals(5, sequence.numProposedTokens());
        assertEquals(5, sequence.numTokens());
        assertArrayEquals(new int[] {5, 6, 5, 6, 5, 6, 5, 6, 5, 6}, Arrays.copyOf(sequence.tokenIds(), 10));
        sequence.acceptProposals(2);
        assertEquals(7, sequence.numTokens());
        assertEquals(0, sequence.numProposedTokens());
    }

    @Test
    void learnsWhatIsRefusedAndTriesItAgainLater() {
        PromptLookup lookup = new PromptLookup(1, 4, AcceptanceRule.COUPLED);
        Sequence sequence = sequence(new int[] {5, 6, 7, 8, 9}, 5);
        int numTried = 0;
        int firstSilence = -1;
        for (int round = 0; round < 400; round++) {
            lookup.propose(List.of(sequence), new int[] {1}, 0.4);
            int proposed = sequence.numProposedTokens();
            sequence.keepProposals(0);
            if (proposed > 0) {
                numTried++;
                lookup.observeVerified(sequence, 1, 0);
            } else if (firstSilence < 0) {
                firstSilence = round;
            }
        }
        assertTrue(firstSilence >= 1 && firstSilence < 5, "silent from round " + firstSilence);
        assertTrue(numTried > firstSilence && numTried < 30, "tried " + numTried);
        lookup.forget(sequence);
    }

    private static Sequence sequence(int[] prompt, int first) {
        SequenceGroup group = new SequenceGroup(
                new SequenceGroup.Settings("r", prompt, SamplingParams.defaults(), 0, 0, "", false, new int[0]));
        return group.addSequence(0, new int[] {first});
    }

    @Test
    void agreesWithANaiveSearch() {
        for (long seed = 0; seed < 3000; seed++) {
            Random random = new Random(seed);
            int[] ids = random.ints(1 + random.nextInt(30), 0, 3).toArray();
            int min = 1 + random.nextInt(3);
            int max = min + random.nextInt(4);
            int limit = 1 + random.nextInt(6);
            double minChance = random.nextInt(3) * 0.25;
            assertArrayEquals(
                    naive(ids, min, max, limit, minChance), guesses(min, max, limit, minChance, ids), "seed " + seed);
        }
    }

    /** For every match length all over again, with lists. */
    private static int[] naive(int[] ids, int min, int max, int limit, double minChance) {
        GuessChances chances = new GuessChances();
        List<Integer> best = List.of();
        double bestExpected = 0;
        for (int length = min; length <= max; length++) {
            List<List<Integer>> texts = continuations(ids, length);
            if (texts.equals(continuations(ids, length + 1)) && length < max) {
                continue;
            }
            List<Integer> guessed = new ArrayList<>();
            double chance = 1;
            double expected = 0;
            while (guessed.size() < limit && !texts.isEmpty()) {
                int place = guessed.size();
                int winner = -1;
                int most = 0;
                for (List<Integer> text : texts) {
                    int candidate = at(text, place, guessed);
                    int votes = (int) texts.stream()
                            .filter(other -> at(other, place, guessed) == candidate)
                            .count();
                    if (votes > most) {
                        most = votes;
                        winner = candidate;
                    }
                }
                int kind = GuessChances.kind(length + place, most, texts.size());
                chance *= chances.chance(kind);
                if (chance < minChance) {
                    chances.fade(kind);
                    break;
                }
                int drawn = winner;
                texts = texts.stream()
                        .filter(text -> at(text, place, guessed) == drawn)
                        .toList();
                guessed.add(winner);
                expected += chance;
            }
            if (expected >= bestExpected) {
                best = guessed;
                bestExpected = expected;
            }
        }
        return best.stream().mapToInt(Integer::intValue).toArray();
    }

    private static int at(List<Integer> text, int place, List<Integer> guessed) {
        return place < text.size() ? text.get(place) : guessed.get(place - text.size());
    }

    /** What followed each earlier place where the last length tokens stand, latest first. */
    private static List<List<Integer>> continuations(int[] ids, int length) {
        List<List<Integer>> texts = new ArrayList<>();
        for (int from = ids.length - 1; from >= length; from--) {
            if (Arrays.equals(ids, from - length, from, ids, ids.length - length, ids.length)) {
                texts.add(Arrays.stream(ids, from, ids.length).boxed().toList());
            }
        }
        return texts;
    }
}
