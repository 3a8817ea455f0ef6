package io.millrace.sequence;

import io.millrace.kvcache.BlockTable;
import io.millrace.sampling.Proposal;
import java.util.Arrays;

/**
 * One sample of a request: its tokens (the prompt's and those drawn), how many of them have their KV computed, and its block
 * table. There is no prefill or decode mode: a step computes some of the tokens that are not computed yet, and the step that
 * computes the last one draws the next. Behind its tokens a sequence may carry proposed ones: guesses at its next tokens,
 * which a step computes beside the last token and then accepts, from the front, or drops. Engine thread only.
 */
public final class Sequence implements Comparable<Sequence> {
    private static final int[] NO_TOKENS = {};

    private final SequenceGroup group;
    private final int sample;
    private final BlockTable blockTable = new BlockTable();
    private int[] tokenIds; // the group's own array until the first token is appended
    private int numTokens;
    private int numComputedTokens;
    private int numProposedTokens; // behind numTokens in tokenIds
    private Proposal[] proposals; // of the proposed tokens, where the rule of acceptance needs more than the token
    private SequenceStatus status = SequenceStatus.WAITING;

    Sequence(SequenceGroup group, int sample, int[] outputTokenIds) {
        this.group = group;
        this.sample = sample;
        tokenIds = group.promptTokenIds();
        numTokens = group.numPromptTokens();
        for (int token : outputTokenIds) {
            append(token);
        }
    }

    public SequenceGroup group() {
        return group;
    }

    /** The sample's place in its request, from 0. */
    public int sample() {
        return sample;
    }

    public BlockTable blockTable() {
        return blockTable;
    }

    /** Prompt and output, valid to numTokens, then the proposed tokens; not to be written or kept. */
    public int[] tokenIds() {
        return tokenIds;
    }

    public int numTokens() {
        return numTokens;
    }

    public int numOutputTokens() {
        return numTokens - group.numPromptTokens();
    }

    public int numComputedTokens() {
        return numComputedTokens;
    }

    public int numUncomputedTokens() {
        return numTokens - numComputedTokens;
    }

    public SequenceStatus status() {
        return status;
    }

    public boolean isRunning() {
        return status == SequenceStatus.RUNNING;
    }

    public boolean isWaiting() {
        return status == SequenceStatus.WAITING;
    }

    /** Takes a drawn token. */
    public void append(int tokenId) {
        if (numProposedTokens > 0) {
            throw new IllegalStateException(this + " has proposals that were neither accepted nor dropped");
        }
        put(numTokens, tokenId);
        numTokens++;
    }

    private void put(int place, int tokenId) {
        if (place == tokenIds.length || tokenIds == group.promptTokenIds()) {
            int room = Math.max(16, place / 2);
            tokenIds = Arrays.copyOf(tokenIds, Math.addExact(place, room));
        }
        tokenIds[place] = tokenId;
    }

    /** Guessed tokens behind the sequence's own in {@link #tokenIds}. */
    public int numProposedTokens() {
        return numProposedTokens;
    }

    /**
     * Adds a guess at the token after those that there are.
     *
     * @param proposal how it was drawn; null where acceptance needs the token alone
     */
    public void propose(int tokenId, Proposal proposal) {
        put(numTokens + numProposedTokens, tokenId);
        if (proposal != null) {
            if (proposals == null) {
                proposals = new Proposal[4];
            } else if (proposals.length == numProposedTokens) {
                proposals = Arrays.copyOf(proposals, 2 * numProposedTokens);
            }
            proposals[numProposedTokens] = proposal;
        }
        numProposedTokens++;
    }

    /** How the proposed token of that place was drawn; null where acceptance needs the token alone. */
    public Proposal proposal(int place) {
        return proposals == null ? null : proposals[place];
    }

    /** Drops all proposed tokens but the first count. */
    public void keepProposals(int count) {
        numProposedTokens = Math.min(count, numProposedTokens);
    }

    /** Makes the first count proposed tokens the sequence's own, and drops the others. */
    public void acceptProposals(int count) {
        if (count > numProposedTokens) {
            throw new IllegalStateException(this + " has " + numProposedTokens + " proposals, not " + count);
        }
        numTokens += count;
        numProposedTokens = 0;
    }

    /** Is to take a sibling's blocks after the current step. */
    public void awaitFork() {
        setStatus(SequenceStatus.FORKING);
    }

    /** Begins to run with the KV of so many tokens at hand. */
    public void run(int numTokensAtHand) {
        setStatus(SequenceStatus.RUNNING);
        numComputedTokens = numTokensAtHand;
    }

    /** Notes that the KV of so many more tokens is computed. */
    public void advance(int count) {
        if (count > numUncomputedTokens()) {
            throw new IllegalStateException(this + " cannot advance by " + count);
        }
        numComputedTokens += count;
    }

    /** Goes back to waiting; its blocks are gone, its tokens are not. */
    public void preempt() {
        setStatus(SequenceStatus.WAITING);
        numComputedTokens = 0;
        numProposedTokens = 0;
    }

    /** Ends; leaves the group and drops the tokens. */
    public void finish() {
        setStatus(SequenceStatus.FINISHED);
        group.remove(this);
        tokenIds = NO_TOKENS;
        numTokens = 0;
        numComputedTokens = 0;
        numProposedTokens = 0;
        proposals = null;
    }

    private void setStatus(SequenceStatus to) {
        group.addWaiting((to == SequenceStatus.WAITING ? 1 : 0) - (isWaiting() ? 1 : 0));
        status = to;
    }

    /** Order of service: the group's, then the sample's place. */
    @Override
    public int compareTo(Sequence other) {
        int byGroup = group.compareTo(other.group);
        return byGroup != 0 ? byGroup : Integer.compare(sample, other.sample);
    }

    @Override
    public boolean equals(Object other) {
        return this == other;
    }

    @Override
    public int hashCode() {
        return System.identityHashCode(this);
    }

    @Override
    public String toString() {
        return group.id() + "#" + sample + " " + status + " " + numComputedTokens + "/" + numTokens + " tokens";
    }
}
