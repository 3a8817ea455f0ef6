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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Sequences that grow step by step, by accepted guesses and by other tokens, against a search that keeps nothing but the counts
 * of what was accepted, and reads the whole text for every guess.
 */
class PromptLookupWalkTest {
    private static final int MAX_PLACES = 32;
    private static final int MAX_PLACES_TRIED = 256;

    private int numGuesses;
    private int numAccepted;
    private int numCutByPlaces;
    private int numCutByPlacesTried;

    /** The search, with its own counts. */
    private final class NaiveLookup {
        final int min;
        final int max;
        final GuessChances chances = new GuessChances();
        final List<Integer> kindsFound = new ArrayList<>();
        int bestToken;
        int bestKind;
        double bestChance;

        NaiveLookup(int min, int max) {
            this.min = min;
            this.max = max;
        }

        /** Guesses and, behind them, as many kinds. */
        int[] guess(int[] own, int[] ending, int limit, double minChance) {
            int[] text = own;
            List<Integer> kinds = new ArrayList<>();
            double chance = 1;
            while (kinds.size() < limit) {
                lookUp(text, own.length);
                chance *= bestChance;
                if (bestKind < 0) {
                    break;
                }
                if (chance < minChance) {
                    kindsFound.forEach(chances::leaveOut);
                    break;
                }
                kindsFound.stream().filter(kind -> kind != bestKind).forEach(chances::beat);
                kinds.add(bestKind);
                text = Arrays.copyOf(text, text.length + 1);
                text[text.length - 1] = bestToken;
                if (Arrays.stream(ending).anyMatch(id -> id == bestToken)) {
                    break;
                }
            }
            int[] guesses = Arrays.copyOfRange(text, own.length, own.length + 2 * kinds.size());
            for (int i = 0; i < kinds.size(); i++) {
                guesses[kinds.size() + i] = kinds.get(i);
            }
            return guesses;
        }

        private void lookUp(int[] text, int numOwn) {
            kindsFound.clear();
            bestKind = -1;
            bestChance = 0;
            for (int filling = 2; filling >= 0; filling--) {
                int fewest = filling == 0 ? min : Math.max(2, min);
                int end = text.length - filling;
                if (end < fewest || fewest > max) {
                    continue;
                }
                List<Integer> places = places(text, numOwn, end, fewest);
                for (int length = fewest; length <= max; length++) {
                    int l = length;
                    List<Integer> matches = places.stream()
                            .filter(place -> matchLength(text, place, end) >= l)
                            .toList();
                    long numLonger = matches.stream()
                            .filter(place -> l < max && matchLength(text, place, end) > l)
                            .count();
                    if (numLonger < matches.size()) {
                        vote(text, filling, length, matches);
                    }
                }
            }
        }

        /** Where a match ends, latest first. */
        private List<Integer> places(int[] text, int numOwn, int end, int fewest) {
            List<Integer> places = new ArrayList<>();
            int numTried = 0;
            for (int place = text.length - 1; place >= 0; place--) {
                if (text[place] != text[end - 1] || place >= numOwn && place > end - 2) {
                    continue;
                }
                if (place < numOwn && numTried++ == MAX_PLACES_TRIED) {
                    numCutByPlacesTried++;
                    break;
                }
                if (place > end - 2 || matchLength(text, place, end) < fewest) {
                    continue;
                }
                if (places.size() == MAX_PLACES) {
                    numCutByPlaces++;
                    break;
                }
                places.add(place);
            }
            return places;
        }

        private int matchLength(int[] text, int place, int end) {
            int length = 0;
            while (length < max && length <= place && text[place - length] == text[end - 1 - length]) {
                length++;
            }
            return length;
        }

        private void vote(int[] text, int filling, int length, List<Integer> matches) {
            int[] votes = matches.stream()
                    .mapToInt(place -> text[place + filling + 1])
                    .toArray();
            int most = 0;
            int winner = -1;
            for (int vote : votes) {
                int count = (int) Arrays.stream(votes).filter(v -> v == vote).count();
                if (count > most) {
                    most = count;
                    winner = vote;
                }
            }
            int kind = GuessChances.kind(filling, length, most, votes.length);
            kindsFound.add(kind);
            if (chances.chance(kind) >= bestChance) {
                bestChance = chances.chance(kind);
                bestKind = kind;
                bestToken = winner;
            }
        }

        void observeVerified(int[] kinds, int numProposed, int accepted) {
            for (int i = 0; i < numProposed && i <= accepted; i++) {
                chances.count(kinds[i], i < accepted);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
    void growingSequencesAreSearchedAsANaiveSearchWould(long firstSeed) {
        for (long seed = firstSeed * 1000; seed < firstSeed * 1000 + 25; seed++) {
            walk(seed, 1 + (int) (seed % 3), 2 + new Random(seed).nextInt(6), 60, 150);
        }
        assertTrue(numGuesses > 1000 && numAccepted > 200, numGuesses + " guesses, " + numAccepted + " accepted");
    }

    /** So many places of each token that neither all are looked at nor all vote. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2})
    void longTextsOfFewTokensAreCutWhereANaiveSearchIs(long seed) {
        walk(seed, 3, 2, 900, 60);
        walk(seed + 10, 5, 2, 1500, 40);
        assertTrue(numCutByPlaces > 100, "cut by places that vote: " + numCutByPlaces);
        assertTrue(numCutByPlacesTried > 20, "cut by places tried: " + numCutByPlacesTried);
    }

    private void walk(long seed, int min, int numTokenIds, int maxPromptTokens, int numSteps) {
        Random random = new Random(seed);
        int max = min + random.nextInt(4);
        int[] ending = random.nextBoolean() ? new int[0] : new int[] {random.nextInt(numTokenIds)};
        PromptLookup lookup = new PromptLookup(min, max, AcceptanceRule.COUPLED);
        NaiveLookup naive = new NaiveLookup(min, max);
        List<Sequence> sequences = new ArrayList<>();
        for (int step = 0; step < numSteps; step++) {
            if (sequences.size() < 2) {
                int numTokens = 1 + random.nextInt(maxPromptTokens);
                sequences.add(sequence(random.ints(numTokens, 0, numTokenIds).toArray(), ending));
            }
            int[] limits = random.ints(sequences.size(), 1, 8).toArray();
            double minChance = random.nextInt(4) * 0.2;
            boolean isPlain = random.nextInt(5) == 0;
            if (!isPlain) {
                lookup.propose(sequences, limits, minChance);
            }
            int[][] expected = new int[sequences.size()][];
            for (int i = 0; i < sequences.size() && !isPlain; i++) {
                Sequence sequence = sequences.get(i);
                int[] own = Arrays.copyOf(sequence.tokenIds(), sequence.numTokens());
                expected[i] = naive.guess(own, ending, limits[i], minChance);
                int[] guesses =
                        Arrays.copyOfRange(sequence.tokenIds(), own.length, own.length + sequence.numProposedTokens());
                assertArrayEquals(
                        Arrays.copyOf(expected[i], expected[i].length / 2),
                        guesses,
                        "seed " + seed + ", step " + step + ", sequence " + i);
            }
            for (int i = 0; i < sequences.size(); i++) {
                verify(random, lookup, naive, sequences.get(i), expected[i]);
                for (int more = random.nextInt(3); more >= 0; more--) {
                    sequences.get(i).append(random.nextInt(numTokenIds));
                }
            }
            if (random.nextInt(30) == 0) {
                lookup.forget(sequences.remove(random.nextInt(sequences.size())));
            }
        }
    }

    /** Some of the guesses are scheduled, some of these accepted. */
    private void verify(Random random, PromptLookup lookup, NaiveLookup naive, Sequence sequence, int[] expected) {
        int found = sequence.numProposedTokens();
        sequence.keepProposals(random.nextInt(3) == 0 ? random.nextInt(found + 1) : found);
        int proposed = sequence.numProposedTokens();
        int accepted = random.nextBoolean() ? proposed : random.nextInt(proposed + 1);
        if (proposed > 0) {
            lookup.observeVerified(sequence, proposed, accepted);
            naive.observeVerified(Arrays.copyOfRange(expected, found, 2 * found), proposed, accepted);
        }
        sequence.acceptProposals(accepted);
        numGuesses += proposed;
        numAccepted += accepted;
    }

    private static Sequence sequence(int[] tokenIds, int[] ending) {
        SequenceGroup group = new SequenceGroup(
                new SequenceGroup.Settings("r", tokenIds, SamplingParams.defaults(), 0, 0, "", false, ending));
        return group.addSequence(0, new int[0]);
    }

    @Test
    void onlyTheLatestPlacesVote() {
        int[] text = new int[2 * (MAX_PLACES + 40) + 1];
        for (int i = 0; i < text.length; i++) {
            text[i] = i % 2 == 0 ? 1 : i / 2 < 40 ? 2 : 3; // 40 votes for 2, then as many as count for 3
        }
        PromptLookup lookup = new PromptLookup(1, 1, AcceptanceRule.COUPLED);
        int unanimous = GuessChances.kind(0, 1, MAX_PLACES, MAX_PLACES);
        double chance = new GuessChances().chance(unanimous);
        assertArrayEquals(new int[] {3}, lookup.guesses(text, text.length, 1, chance));
        assertEquals(1, chance, 1e-9);
    }

    @Test
    void onlyTheLatestPlacesOfATokenAreLookedAt() {
        PromptLookup lookup = new PromptLookup(2, 2, AcceptanceRule.COUPLED);
        int[] text = quoteBefore(MAX_PLACES_TRIED - 2);
        assertArrayEquals(new int[] {9}, lookup.guesses(text, text.length, 1, 0));
        int[] longer = quoteBefore(MAX_PLACES_TRIED - 1);
        assertEquals(0, lookup.guesses(longer, longer.length, 1, 0).length);
    }

    /** 7 1 9, then as many times 1 and a token that comes once, then 7 1. */
    private static int[] quoteBefore(int numOnes) {
        int[] text = new int[3 + 2 * numOnes + 2];
        for (int i = 0; i < text.length; i++) {
            text[i] = i % 2 == 1 ? 1 : 100 + i;
        }
        text[0] = 7;
        text[2] = 9;
        text[text.length - 2] = 7;
        text[text.length - 1] = 1;
        return text;
    }

    @Test
    void aKindThatFailedIsTriedAgainThoughAnotherIsGuessed() {
        GuessChances chances = new GuessChances();
        int failed = GuessChances.kind(0, 4, 9, 9);
        int other = GuessChances.kind(0, 1, 1, 1);
        for (int i = 0; i < 50; i++) {
            chances.count(failed, false);
            chances.count(other, i % 4 > 0);
        }
        assertTrue(chances.chance(failed) < chances.chance(other));
        double good = chances.chance(other);
        int numBeaten = 0;
        while (chances.chance(failed) < chances.chance(other)) {
            chances.beat(failed);
            chances.beat(other);
            numBeaten++;
        }
        assertTrue(numBeaten > 200 && numBeaten < 3000, "beaten " + numBeaten);
        assertEquals(good, chances.chance(other), "what is better than its share is not forgotten");
    }
}
