package io.millrace.speculation;

import io.millrace.sampling.Proposal;
import io.millrace.sequence.Sequence;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/**
 * Prompt lookup (Saxena, "Prompt Lookup Decoding", 2023): finds the last tokens earlier in the sequence, prompt or output, and
 * guesses what followed there; then the same behind the guess. The places found vote on the token, as in suffix decoding
 * (Oliaro et al., "SuffixDecoding", 2024): where a form is filled in anew each time, the form is guessed and the filling is
 * not.
 *
 * <p>A filling is also what the last tokens may differ by: places match too where all but the last one or two tokens do, so
 * that the form goes on behind a name that the text did not know. Of the ways to match (how many tokens, before how long a
 * filling) the one whose token is likeliest to be accepted wins; of equally likely ones the shortest filling, then the longest
 * match; equal votes go to the latest place.
 */
public final class PromptLookup implements Proposer {
    /** Longest filling between the match and the guess, in tokens. */
    static final int MAX_FILLING = 2;

    /** Fewest tokens that must match before a filling: one alone would match almost anything. */
    static final int MIN_LENGTH_BEFORE_FILLING = 2;

    /** Most places that vote: the latest. */
    private static final int MAX_PLACES = 32;

    /** Most places of a token that are looked at for matches. */
    private static final int MAX_PLACES_TRIED = 256;

    private static final int[] NO_TOKENS = {};

    private final int minLength;
    private final int maxLength;
    private final AcceptanceRule rule;
    private final GuessChances chances = new GuessChances();
    private final Map<Sequence, History> histories = new IdentityHashMap<>();

    // The text that is looked up: tokens, then guesses.
    private int[] tokenIds;
    private int numTokens;
    private int[] guesses = new int[8];
    private int[] kinds = new int[8]; // of the guesses
    private int numGuesses;

    private final int[] votes = new int[MAX_PLACES]; // tokens behind the matches, latest first
    private final int[] lengths = new int[MAX_PLACES]; // of the matches
    private final int[] kindsFound; // by the last lookup
    private int numKindsFound;
    private int bestTokenId;
    private int bestKind;
    private double bestChance;

    /** What is kept of a sequence. */
    private static final class History {
        final TokenPlaces places = new TokenPlaces();
        int[] kinds = {}; // of its last proposals
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
        kindsFound = new int[(MAX_FILLING + 1) * maxLength];
    }

    @Override
    public void propose(List<Sequence> sequences, int[] limits, double minChance) {
        for (int i = 0; i < sequences.size(); i++) {
            Sequence sequence = sequences.get(i);
            History history = histories.computeIfAbsent(sequence, s -> new History());
            int[] endingTokenIds = sequence.group().suppressedTokenIds();
            guess(sequence.tokenIds(), sequence.numTokens(), history.places, endingTokenIds, limits[i], minChance);
            for (int j = 0; j < numGuesses; j++) {
                int tokenId = guesses[j];
                sequence.propose(tokenId, rule == AcceptanceRule.COUPLED ? null : new Proposal(tokenId, null));
            }
            if (history.kinds.length < numGuesses) {
                history.kinds = new int[kinds.length];
            }
            System.arraycopy(kinds, 0, history.kinds, 0, numGuesses);
        }
        tokenIds = null;
    }

    /** The guesses for what follows the tokens. */
    int[] guesses(int[] text, int numTokensOfText, int limit, double minChance) {
        guess(text, numTokensOfText, new TokenPlaces(), NO_TOKENS, limit, minChance);
        return Arrays.copyOf(guesses, numGuesses);
    }

    /** Guesses one token after another, until too few would be right or one that ends the sequence. */
    private void guess(
            int[] text, int numTokensOfText, TokenPlaces places, int[] endingTokenIds, int limit, double minChance) {
        places.extend(text, numTokensOfText);
        tokenIds = text;
        numTokens = numTokensOfText;
        numGuesses = 0;
        if (guesses.length < limit) {
            guesses = new int[limit];
            kinds = new int[limit];
        }
        double chance = 1;
        while (numGuesses < limit) {
            lookUp(places);
            if (bestKind < 0) {
                return;
            }
            chance *= bestChance;
            noteKindsFound(chance >= minChance);
            if (chance < minChance) {
                return;
            }
            kinds[numGuesses] = bestKind;
            guesses[numGuesses++] = bestTokenId;
            for (int ending : endingTokenIds) {
                if (ending == bestTokenId) {
                    return;
                }
            }
        }
    }

    private void noteKindsFound(boolean isGuessed) {
        for (int i = 0; i < numKindsFound; i++) {
            if (!isGuessed) {
                chances.leaveOut(kindsFound[i]);
            } else if (kindsFound[i] != bestKind) {
                chances.beat(kindsFound[i]);
            }
        }
    }

    /** Finds the likeliest token behind the text; its kind is -1 if no place matches. */
    private void lookUp(TokenPlaces places) {
        bestKind = -1;
        bestChance = 0;
        numKindsFound = 0;
        for (int filling = MAX_FILLING; filling >= 0; filling--) {
            int fewest = filling == 0 ? minLength : Math.max(minLength, MIN_LENGTH_BEFORE_FILLING);
            int end = numTokens + numGuesses - filling; // of what must match
            if (end >= fewest && fewest <= maxLength) {
                int numPlaces = findPlaces(places, end, filling, fewest);
                for (int length = fewest; numPlaces > 0; length++) {
                    int numLonger = countLonger(numPlaces, length);
                    if (numLonger < numPlaces) { // else the same places match with more tokens
                        vote(filling, length, numPlaces);
                        numPlaces = keepLonger(numPlaces, length);
                    }
                }
            }
        }
    }

    /** Fills votes and lengths from the latest places where the tokens before end stand too; returns how many there are. */
    private int findPlaces(TokenPlaces places, int end, int filling, int fewest) {
        int last = token(end - 1);
        int count = 0;
        int place = end - 2;
        for (; place >= numTokens && count < MAX_PLACES; place--) {
            if (token(place) == last) {
                count = addPlace(count, place, end, filling, fewest);
            }
        }
        int latest = place;
        place = places.latest(last);
        for (int tried = 0; place >= 0 && tried < MAX_PLACES_TRIED && count < MAX_PLACES; tried++) {
            if (place <= latest) {
                count = addPlace(count, place, end, filling, fewest);
            }
            place = places.previous(place);
        }
        return count;
    }

    private int addPlace(int count, int place, int end, int filling, int fewest) {
        int most = Math.min(maxLength, place + 1);
        int length = 1;
        while (length < most && token(place - length) == token(end - 1 - length)) {
            length++;
        }
        if (length < fewest) {
            return count;
        }
        votes[count] = token(place + filling + 1);
        lengths[count] = length;
        return count + 1;
    }

    private int token(int place) {
        return place < numTokens ? tokenIds[place] : guesses[place - numTokens];
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
                votes[count] = votes[i];
                lengths[count++] = lengths[i];
            }
        }
        return count;
    }

    /** Takes the token that most places vote for as the best if it is no less likely than the best so far. */
    private void vote(int filling, int length, int numPlaces) {
        int winner = -1;
        int most = 0;
        for (int i = 0; i < numPlaces && most < numPlaces - i; i++) {
            int count = 0;
            for (int j = i; j < numPlaces; j++) {
                count += votes[j] == votes[i] ? 1 : 0;
            }
            if (count > most) {
                most = count;
                winner = votes[i];
            }
        }
        int kind = GuessChances.kind(filling, length, most, numPlaces);
        kindsFound[numKindsFound++] = kind;
        double chance = chances.chance(kind);
        if (chance >= bestChance) {
            bestChance = chance;
            bestKind = kind;
            bestTokenId = winner;
        }
    }

    @Override
    public boolean knowsChances() {
        return true;
    }

    @Override
    public void observeVerified(Sequence sequence, int numProposed, int numAccepted) {
        int[] kindsProposed = histories.get(sequence).kinds;
        for (int i = 0; i < Math.min(numProposed, numAccepted + 1); i++) {
            chances.count(kindsProposed[i], i < numAccepted);
        }
    }

    @Override
    public void forget(Sequence sequence) {
        histories.remove(sequence);
    }

    @Override
    public void close() {}
}
