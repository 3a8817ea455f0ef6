package io.millrace.speculation;

import io.millrace.sampling.Proposal;
import io.millrace.sequence.Sequence;
import java.util.List;

/**
 * Prompt lookup (Saxena, "Prompt Lookup Decoding", 2023): finds the last tokens earlier in the sequence, prompt or output, and
 * proposes what followed there. The longest match wins, of equally long ones the latest; a match that runs into the end
 * goes on with its own proposals, so that a repetition is proposed as often as wanted.
 */
public final class PromptLookup implements Proposer {
    private final int minLength;
    private final int maxLength;
    private final AcceptanceRule rule;

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
    public void propose(List<Sequence> sequences, int[] limits) {
        for (int i = 0; i < sequences.size(); i++) {
            Sequence sequence = sequences.get(i);
            int from = find(sequence.tokenIds(), sequence.numTokens());
            if (from >= 0) {
                for (int j = 0; j < limits[i]; j++) {
                    int tokenId = sequence.tokenIds()[from + j];
                    sequence.propose(tokenId, rule == AcceptanceRule.COUPLED ? null : new Proposal(tokenId, null));
                }
            }
        }
    }

    /** Where the best match's continuation begins, or -1. */
    int find(int[] tokenIds, int numTokens) {
        int last = tokenIds[numTokens - 1];
        int best = -1;
        int bestLength = minLength - 1;
        for (int end = numTokens - 2; end >= bestLength && bestLength < maxLength; end--) {
            if (tokenIds[end] != last) {
                continue;
            }
            int most = Math.min(maxLength, end + 1);
            int length = 1;
            while (length < most && tokenIds[end - length] == tokenIds[numTokens - 1 - length]) {
                length++;
            }
            if (length > bestLength) {
                best = end + 1;
                bestLength = length;
            }
        }
        return best;
    }

    @Override
    public void forget(Sequence sequence) {}

    @Override
    public long lastDraftStepNanos() {
        return 0;
    }

    @Override
    public void close() {}
}
