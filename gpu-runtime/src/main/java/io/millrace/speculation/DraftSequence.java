package io.millrace.speculation;

import io.millrace.kvcache.BlockTable;
import io.millrace.sampling.Proposal;
import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import java.util.Arrays;

/** How far a draft model has followed a sequence. Tokens are the sequence's own and, behind them, its proposals. */
final class DraftSequence {
    final Sequence sequence;
    final BlockTable table = new BlockTable();
    final SamplingParams params; // the request's, without log probabilities
    int numComputed;
    int numMarked; // confirmed tokens noted as computed
    int numWanted; // proposals, in this round
    boolean excluded;

    private int[] proposedTokenIds = new int[8]; // of the last round
    private int numTokensBefore; // of the sequence, in the last round
    private float[][] distributions = new float[0][];

    DraftSequence(Sequence sequence) {
        this.sequence = sequence;
        params = sequence.group().sampling().toBuilder().numLogprobs(-1).build();
    }

    int numProposals() {
        return sequence.numProposedTokens();
    }

    int numUncomputed() {
        return sequence.numTokens() + sequence.numProposedTokens() - numComputed;
    }

    /** Begins with the KV of so many tokens at hand. */
    void begin(int numCached) {
        numComputed = numCached;
        numMarked = numCached;
        numTokensBefore = sequence.numTokens();
    }

    /** Keeps the KV of those tokens alone that the sequence has today, all but its last, which is to be drawn from. */
    void rollBack() {
        int most = Math.min(numComputed, sequence.numTokens() - 1);
        int kept = Math.min(most, numTokensBefore);
        while (kept < most && sequence.tokenIds()[kept] == proposedTokenIds[kept - numTokensBefore]) {
            kept++;
        }
        numComputed = kept;
        numTokensBefore = sequence.numTokens();
    }

    void advance(int count) {
        numComputed += count;
    }

    /** Hands a drawn token to the sequence; with the distribution it was drawn from, if that is needed. */
    void propose(int tokenId, float[] distribution) {
        int place = numProposals();
        if (place == proposedTokenIds.length) {
            proposedTokenIds = Arrays.copyOf(proposedTokenIds, 2 * place);
        }
        proposedTokenIds[place] = tokenId;
        sequence.propose(tokenId, distribution == null ? null : new Proposal(tokenId, distribution));
    }

    /** Where the distribution of a round's proposal of that place goes; reused from round to round. */
    float[] distribution(int place, int vocabSize) {
        if (place >= distributions.length) {
            distributions = Arrays.copyOf(distributions, place + 1);
            distributions[place] = new float[vocabSize];
        }
        return distributions[place];
    }
}
