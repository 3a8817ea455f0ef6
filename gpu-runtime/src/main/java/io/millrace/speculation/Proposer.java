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
     */
    void propose(List<Sequence> sequences, int[] limits);

    /** Drops what is kept of a sequence that ended. Does nothing for one it never met. */
    void forget(Sequence sequence);

    /**
     * How long drafting one more token for all sequences of the last round took; 0 if next to nothing, negative if the round
     * tells nothing of it.
     */
    long lastDraftStepNanos();

    @Override
    void close();
}
