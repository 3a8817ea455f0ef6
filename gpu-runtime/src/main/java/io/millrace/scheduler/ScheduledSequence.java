package io.millrace.scheduler;

import io.millrace.sequence.Sequence;
import java.util.List;

/**
 * A sequence's share of a step: the tokens at positions firstPosition … endPosition-1.
 *
 * @param sequence whose tokens
 * @param firstPosition the first not computed before
 * @param endPosition the first not computed after
 * @param forks siblings that wait for the prompt and take its blocks by reference after the step; those without output
 *     draw their first token from the prompt's last logits in this very step
 */
public record ScheduledSequence(Sequence sequence, int firstPosition, int endPosition, List<Sequence> forks) {
    public int numTokens() {
        return endPosition - firstPosition;
    }

    /** Whether the sequence itself draws its next token. */
    public boolean draws() {
        return endPosition >= sequence.numTokens();
    }

    /** Proposed tokens computed behind the sequence's own; each draws a token too. Until they are accepted or dropped. */
    public int numProposedTokens() {
        return Math.max(0, endPosition - sequence.numTokens());
    }
}
