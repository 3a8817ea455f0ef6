package io.millrace.speculation;

import io.millrace.sequence.Sequence;
import java.util.List;

/** Guesses sequences' next tokens. Engine thread only. */
public interface Proposer extends AutoCloseable {
    /**
     * Proposes for running sequences, by {@link Sequence#propose}; fewer than the limit, or none, where it has no guess.
     *
     * @param sequences in order of service, without proposals, all but their last token computed
     * @param limits [sequences] most tokens to propose for each, at least 1
     * @param minChance the least chance of being accepted with which a token is worth verifying; for a proposer that
     *     {@link #knowsChances}, of no meaning to others
     */
    void propose(List<Sequence> sequences, int[] limits, double minChance);

    /** Whether it judges its guesses one by one; the tokens of others are judged by how many were accepted so far. */
    default boolean knowsChances() {
        return false;
    }

    /** Notes what came of a sequence's last proposals, of which the first numProposed were verified. */
    default void observeVerified(Sequence sequence, int numProposed, int numAccepted) {}

    /** Drops what is kept of a sequence that ended. Does nothing for one it never met. */
    void forget(Sequence sequence);

    /**
     * How long drafting one more token for all sequences of the last round took; negative if the round tells nothing of it.
     * Asked of those that draft one token for all after the other: a proposer that {@link #knowsChances} is timed by the round.
     */
    default long lastDraftStepNanos() {
        return -1;
    }

    @Override
    void close();
}
