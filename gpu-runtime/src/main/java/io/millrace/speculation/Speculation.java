package io.millrace.speculation;

import io.millrace.sequence.Sequence;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.LongSupplier;
import java.util.function.ToIntFunction;

/**
 * Has tokens proposed before a step and counts what came of them after it. Engine thread only.
 */
public final class Speculation {
    private final Proposer proposer;
    private final int maxDraftTokens;
    private final LongSupplier clock;
    private final DraftLengths lengths; // null if the number of proposals is fixed
    private final List<Sequence> decoding = new ArrayList<>();
    private final List<Sequence> chosen = new ArrayList<>();
    private int[] limits = new int[16];
    private long numProposedTokens;
    private long numAcceptedTokens;

    /**
     * A speculation.
     *
     * @param maxDraftTokens γ: most proposals of a sequence in a step
     * @param adaptive whether to propose fewer, or none, where that is faster
     * @param clock nanoseconds
     */
    public Speculation(Proposer proposer, int maxDraftTokens, boolean adaptive, LongSupplier clock) {
        this.proposer = Objects.requireNonNull(proposer);
        if (maxDraftTokens < 1) {
            throw new IllegalArgumentException(maxDraftTokens + " draft tokens");
        }
        this.clock = Objects.requireNonNull(clock);
        this.maxDraftTokens = maxDraftTokens;
        lengths = adaptive ? new DraftLengths(maxDraftTokens) : null;
    }

    /**
     * Proposes for the running sequences that decode, in place of what was proposed for them before.
     *
     * @param tokensLeft how many more tokens a sequence may draw
     */
    public void propose(List<Sequence> running, ToIntFunction<Sequence> tokensLeft) {
        decoding.clear();
        for (int i = 0; i < running.size(); i++) {
            Sequence sequence = running.get(i);
            sequence.keepProposals(0);
            if (sequence.numUncomputedTokens() == 1 && sequence.numOutputTokens() > 0) {
                decoding.add(sequence);
            }
        }
        if (decoding.isEmpty()) {
            return;
        }
        if (limits.length < decoding.size()) {
            limits = new int[2 * decoding.size()];
        }
        double minChance = 0;
        if (lengths == null) {
            Arrays.fill(limits, 0, decoding.size(), maxDraftTokens);
        } else if (proposer.knowsChances()) {
            minChance = lengths.chooseChance(decoding.size(), limits);
        } else {
            lengths.choose(decoding, limits);
        }
        chosen.clear();
        for (int i = 0; i < decoding.size(); i++) {
            // The step draws one token more than it accepts.
            int limit = limits[i] == 0 ? 0 : Math.min(limits[i], tokensLeft.applyAsInt(decoding.get(i)) - 1);
            if (limit > 0) {
                limits[chosen.size()] = limit;
                chosen.add(decoding.get(i));
            }
        }
        if (!chosen.isEmpty()) {
            long begun = clock.getAsLong();
            proposer.propose(chosen, limits, minChance);
            if (lengths != null) {
                observeProposing(clock.getAsLong() - begun);
            }
        }
    }

    private void observeProposing(long nanos) {
        if (proposer.knowsChances()) {
            lengths.observeLookups(chosen.size(), nanos);
        } else if (proposer.lastDraftStepNanos() >= 0) {
            lengths.costs().observeDraftStep(decoding.size(), proposer.lastDraftStepNanos());
        }
    }

    /** Notes how many of a sequence's verified proposals were accepted. */
    public void observeVerified(Sequence sequence, int numProposed, int numAccepted) {
        numProposedTokens += numProposed;
        numAcceptedTokens += numAccepted;
        proposer.observeVerified(sequence, numProposed, numAccepted);
        if (lengths != null) {
            lengths.observeVerified(sequence, numProposed, numAccepted);
        }
    }

    /**
     * Notes a step, before what came of its proposals.
     *
     * @param numDecoding sequences that computed their last token
     * @param numProposed tokens verified beside them
     * @param numPromptTokens all other tokens
     */
    public void observeStep(int numDecoding, int numProposed, int numPromptTokens, long nanos) {
        if (lengths != null) {
            lengths.observeStep(numDecoding, numProposed, numPromptTokens, nanos);
        }
    }

    /** Drops what is kept of a sequence that ended. */
    public void forget(Sequence sequence) {
        proposer.forget(sequence);
        if (lengths != null) {
            lengths.forget(sequence);
        }
    }

    public SpeculationStats stats() {
        return new SpeculationStats(
                numProposedTokens,
                numAcceptedTokens,
                lengths == null ? 0 : lengths.numStepsOff(),
                lengths != null && lengths.isOff());
    }
}
