package io.millrace.speculation;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
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
    void aFormGoesOnBehindAFillingThatTheTextDidNotKnow() {
        int[] form = {1, 2, 7, 3, 4, 5, 6, 1, 2, 8, 3, 4, 5, 6, 1, 2, 9};
        assertArrayEquals(new int[] {3, 4, 5, 6, 1}, guesses(1, 4, 5, 0.05, form));
        int[] longer = {1, 2, 7, 17, 3, 4, 5, 6, 1, 2, 8, 18, 3, 4, 5, 6, 1, 2, 9, 19};
        assertArrayEquals(new int[] {3, 4, 5, 6, 1}, guesses(1, 4, 5, 0.05, longer));
        assertArrayEquals(new int[] {}, guesses(1, 1, 5, 0.1, form), "one token alone is no form");
    }

    @Test
    void guessesNothingBehindATokenThatEndsTheSequence() {
        SequenceGroup group = new SequenceGroup(new SequenceGroup.Settings(
                "r", new int[] {5, 6, 7, 8, 9}, SamplingParams.defaults(), 0, 0, "", false, new int[] {4, 7}));
        Sequence sequence = group.addSequence(0, new int[] {5});
        new PromptLookup(1, 4, AcceptanceRule.COUPLED).propose(List.of(sequence), new int[] {4}, 0);
        assertEquals(2, sequence.numProposedTokens());
        assertEquals(7, sequence.tokenIds()[7]);
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

    /** For every guess, filling and match length all over again, with lists. */
    private static int[] naive(int[] ids, int min, int max, int limit, double minChance) {
        GuessChances chances = new GuessChances();
        List<Integer> text = new ArrayList<>(Arrays.stream(ids).boxed().toList());
        double chance = 1;
        while (text.size() < ids.length + limit) {
            int winner = -1;
            int bestKind = -1;
            double bestChance = 0;
            for (int filling = 2; filling >= 0; filling--) {
                for (int length = filling == 0 ? min : Math.max(2, min); length <= max; length++) {
                    List<Integer> places = placesOf(text, filling, length);
                    if (places.isEmpty() || length < max && places.equals(placesOf(text, filling, length + 1))) {
                        continue;
                    }
                    int f = filling;
                    List<Integer> votes =
                            places.stream().map(place -> text.get(place + f)).toList();
                    int candidate = votes.stream()
                            .max((a, b) -> Collections.frequency(votes, a) != Collections.frequency(votes, b)
                                    ? Collections.frequency(votes, a) - Collections.frequency(votes, b)
                                    : votes.indexOf(b) - votes.indexOf(a))
                            .orElseThrow();
                    int kind =
                            GuessChances.kind(filling, length, Collections.frequency(votes, candidate), votes.size());
                    if (chances.chance(kind) >= bestChance) {
                        bestChance = chances.chance(kind);
                        bestKind = kind;
                        winner = candidate;
                    }
                }
            }
            chance *= bestChance;
            if (bestKind < 0 || chance < minChance) {
                break;
            }
            text.add(winner);
        }
        return text.subList(ids.length, text.size()).stream()
                .mapToInt(Integer::intValue)
                .toArray();
    }

    /** The ends of all earlier places where the tokens before the last few stand, as many as length, latest first. */
    private static List<Integer> placesOf(List<Integer> text, int filling, int length) {
        int end = text.size() - filling;
        List<Integer> places = new ArrayList<>();
        for (int other = end - 1; other >= length && end >= length; other--) {
            if (text.subList(other - length, other).equals(text.subList(end - length, end))) {
                places.add(other);
            }
        }
        return places;
    }
}
