package io.millrace.speculation;

import io.millrace.sampling.Proposal;
import io.millrace.sequence.Sequence;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/**
 * Prompt lookup (Saxena, "Prompt Lookup Decoding", 2023): finds the last tokens earlier in the sequence, prompt or output, and
 * guesses what followed there. The places found vote on each token, and only those that agree vote on the next, as in suffix
 * decoding (Oliaro et al., "SuffixDecoding", 2024): where a form is filled in anew each time, the form is guessed and the
 * filling is not. Of the match lengths the one whose guesses promise most wins, of equal ones the longest; equal votes go to
 * the latest place. A match that runs into the end goes on with its own guesses.
 */
public final class PromptLookup implements Proposer {
    /** Most places that vote: the latest. */
    private static final int MAX_PLACES = 32;

    private final int minLength;
    private final int maxLength;
    private final AcceptanceRule rule;
    private final GuessChances chances = new GuessChances();
    private final Map<Sequence, int[]> kindsOfSequences = new IdentityHashMap<>();

    private final int[] places = new int[MAX_PLACES]; // last tokens of the matches, latest first
    private final int[] lengths = new int[MAX_PLACES];
    private final int[] voters = new int[MAX_PLACES];
    private Guesses best = new Guesses();
    private Guesses tried = new Guesses();

    /** A run of guesses. */
    private static final class Guesses {
        int[] tokenIds = new int[8];
        int[] kinds = new int[8];
        int count;
        double numExpected;

        void clear(int limit) {
            count = 0;
            numExpected = 0;
            if (tokenIds.length < limit) {
                tokenIds = new int[limit];
                kinds = new int[limit];
            }
        }
    }

    /**
     * A lookup.
     *
     * @param minLength fewest last tokens that must match
     * @param maxLength most last tokens that are compared
     */
    public PromptLookup(int minLength, int maxLength, AcceptanceRule rule) {
        if (minLength < 1 || maxLength < minLength) {
            throw new IllegalArgumentException("a match of " + minLength + " to " + maxLength + " tokens");
        }
        this.minLength = minLength;
        this.maxLength = maxLength;
        this.rule = rule;
    }

    @Override
    public void propose(List<Sequence> sequences, int[] limits, double minChance) {
        for (int i = 0; i < sequences.size(); i++) {
            Sequence sequence = sequences.get(i);
            guess(sequence.tokenIds(), sequence.numTokens(), limits[i], minChance);
            for (int j = 0; j < best.count; j++) {
                int tokenId = best.tokenIds[j];
                sequence.propose(tokenId, rule == AcceptanceRule.COUPLED ? null : new Proposal(tokenId, null));
            }
            if (best.count > 0) {
                int[] kinds = kindsOfSequences.get(sequence);
                if (kinds == null || kinds.length < best.count) {
                    kinds = new int[best.kinds.length];
                    kindsOfSequences.put(sequence, kinds);
                }
                System.arraycopy(best.kinds, 0, kinds, 0, best.count);
            }
        }
    }

    /** The guesses for what follows the tokens. */
    int[] guesses(int[] tokenIds, int numTokens, int limit, double minChance) {
        guess(tokenIds, numTokens, limit, minChance);
        return java.util.Arrays.copyOf(best.tokenIds, best.count);
    }

    private void guess(int[] tokenIds, int numTokens, int limit, double minChance) {
        best.clear(limit);
        int numPlaces = findPlaces(tokenIds, numTokens);
        for (int length = minLength; length <= maxLength && numPlaces > 0; length++) {
            int numLonger = countLonger(numPlaces, length);
            if (numLonger < numPlaces) { // else the same places match with more tokens
                follow(tokenIds, numTokens, length, numPlaces, limit, minChance);
                if (tried.numExpected >= best.numExpected) {
                    Guesses better = tried;
                    tried = best;
                    best = better;
                }
                numPlaces = keepLonger(numPlaces, length);
            }
        }
    }

    /** Fills places and lengths with the latest matches of at least minLength tokens. */
    private int findPlaces(int[] tokenIds, int numTokens) {
        int last = tokenIds[numTokens - 1];
        int count = 0;
        for (int end = numTokens - 2; end >= minLength - 1 && count < MAX_PLACES; end--) {
            if (tokenIds[end] != last) {
                continue;
            }
            int most = Math.min(maxLength, end + 1);
            int length = 1;
            while (length < most && tokenIds[end - length] == tokenIds[numTokens - 1 - length]) {
                length++;
            }
            if (length >= minLength) {
                places[count] = end;
                lengths[count++] = length;
            }
        }
        return count;
    }

    private int countLonger(int numPlaces, int length) {
        int count = 0;
        for (int i = 0; i < numPlaces; i++) {
            count += lengths[i] > length ? 1 : 0;
        }
        return count;
    }

    private int keepLonger(int numPlaces, int length) {
        int count = 0;
        for (int i = 0; i < numPlaces; i++) {
            if (lengths[i] > length) {
                places[count] = places[i];
                lengths[count++] = lengths[i];
            }
        }
        return count;
    }

    /** Lets the places vote for one token after another, until too few would be right. */
    private void follow(int[] tokenIds, int numTokens, int length, int numPlaces, int limit, double minChance) {
        tried.clear(limit);
        System.arraycopy(places, 0, voters, 0, numPlaces);
        int numVoters = numPlaces;
        double chance = 1;
        while (tried.count < limit) {
            int winner = -1;
            int most = 0;
            for (int i = 0; i < numVoters && most < numVoters - i; i++) {
                int votes = countVotes(tokenIds, numTokens, numVoters, next(tokenIds, numTokens, voters[i]));
                if (votes > most) {
                    most = votes;
                    winner = next(tokenIds, numTokens, voters[i]);
                }
            }
            int kind = GuessChances.kind(length + tried.count, most, numVoters);
            chance *= chances.chance(kind);
            if (chance < minChance) {
                chances.fade(kind);
                return;
            }
            numVoters = keepVoters(tokenIds, numTokens, numVoters, winner);
            tried.kinds[tried.count] = kind;
            tried.tokenIds[tried.count++] = winner;
            tried.numExpected += chance;
        }
    }

    /** The token behind a place, in the sequence or, past its end, among the guesses. */
    private int next(int[] tokenIds, int numTokens, int place) {
        return place + 1 < numTokens ? tokenIds[place + 1] : tried.tokenIds[place + 1 - numTokens];
    }

    private int countVotes(int[] tokenIds, int numTokens, int numVoters, int tokenId) {
        int votes = 0;
        for (int i = 0; i < numVoters; i++) {
            votes += next(tokenIds, numTokens, voters[i]) == tokenId ? 1 : 0;
        }
        return votes;
    }

    /** Keeps the places that go on with a token, and moves them on. */
    private int keepVoters(int[] tokenIds, int numTokens, int numVoters, int tokenId) {
        int count = 0;
        for (int i = 0; i < numVoters; i++) {
            if (next(tokenIds, numTokens, voters[i]) == tokenId) {
                voters[count++] = voters[i] + 1;
            }
        }
        return count;
    }

    @Override
    public boolean knowsChances() {
        return true;
    }

    @Override
    public void observeVerified(Sequence sequence, int numProposed, int numAccepted) {
        int[] kinds = kindsOfSequences.get(sequence);
        for (int i = 0; i < Math.min(numProposed, numAccepted + 1); i++) {
            chances.count(kinds[i], i < numAccepted);
        }
    }

    @Override
    public void forget(Sequence sequence) {
        kindsOfSequences.remove(sequence);
    }

    @Override
    public long lastDraftStepNanos() {
        return 0;
    }

    @Override
    public void close() {}
}
