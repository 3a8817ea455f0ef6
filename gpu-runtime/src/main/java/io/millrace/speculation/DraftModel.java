package io.millrace.speculation;

import io.millrace.backend.Backend;
import io.millrace.backend.LogitsRow;
import io.millrace.backend.SequenceFaultException;
import io.millrace.backend.StepOutput;
import io.millrace.kvcache.BlockManager;
import io.millrace.sampling.RowSampling;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Proposes what a smaller model draws, with the sequence's own settings and random numbers, token after token, for all
 * sequences together. Owns the model's backend and the blocks of its KV there, which follow the tokens that the target
 * accepted: what the draft computed of refused proposals is overwritten.
 *
 * <p>A sequence that finds no room in the draft's KV, or has grown beyond the draft's context, gets no proposals.
 */
public final class DraftModel implements Proposer {
    private static final Logger LOG = LoggerFactory.getLogger(DraftModel.class);
    private static final int[] NO_TOKENS = {};

    /**
     * The draft's own limits.
     *
     * @param blockSize tokens per KV block
     * @param prefixCaching whether prompts share KV
     * @param maxNumBatchedTokens most tokens of a step
     * @param maxNumSeqs most sequences of a step
     * @param maxModelLen most tokens of a sequence, in the draft's context
     * @param vocabSize of both models
     */
    public record Limits(
            int blockSize,
            boolean prefixCaching,
            int maxNumBatchedTokens,
            int maxNumSeqs,
            int maxModelLen,
            int vocabSize) {}

    private final Backend backend;
    private final Limits limits;
    private final AcceptanceRule rule;
    private final BlockManager blocks;
    private final DraftBatch batch;
    private final Map<Sequence, DraftSequence> drafts = new HashMap<>();
    private final List<DraftSequence> round = new ArrayList<>();
    private long lastDraftStepNanos;
    private boolean faultLogged;

    public DraftModel(Backend backend, Limits limits, AcceptanceRule rule) {
        this.backend = backend;
        this.limits = limits;
        this.rule = rule;
        blocks = new BlockManager(
                backend.numBlocks(), limits.blockSize(), limits.prefixCaching(), 1, backend.blocksPerRun());
        batch = new DraftBatch(limits.blockSize(), limits.maxNumBatchedTokens(), limits.maxNumSeqs());
    }

    @Override
    public void propose(List<Sequence> sequences, int[] numWanted, double minChance) {
        freePreempted();
        round.clear();
        SequenceGroup beginning = null;
        for (int i = 0; i < sequences.size(); i++) {
            Sequence sequence = sequences.get(i);
            SequenceGroup group = sequence.group();
            DraftSequence draft = drafts.get(sequence);
            if (draft == null && group == beginning) {
                continue; // finds its prompt's KV in the next round, computed by its sibling in this one
            }
            if (draft == null) {
                beginning = limits.prefixCaching() ? group : null;
                draft = new DraftSequence(sequence);
                drafts.put(sequence, draft);
            }
            if (makeRoom(draft, numWanted[i])) {
                round.add(draft);
            }
        }
        runRound();
    }

    /** Steps until all have their proposals: first what the draft has not computed yet, then token by token. */
    private void runRound() {
        lastDraftStepNanos = -1;
        boolean pending = !round.isEmpty();
        while (pending) {
            batch.clear();
            boolean catchingUp = false;
            for (int i = 0; i < round.size() && batch.numTokensLeft() > 0; i++) {
                DraftSequence draft = round.get(i);
                if (draft.numProposals() < draft.numWanted) {
                    int count = Math.min(draft.numUncomputed(), batch.numTokensLeft());
                    catchingUp |= count > 2;
                    boolean draws = count == draft.numUncomputed();
                    batch.add(draft, count, draws ? row(draft, batch.numTokens() + count - 1) : null);
                }
            }
            pending = batch.numTokens() > 0 && step(catchingUp);
        }
    }

    /** Runs the batch; returns whether there may be more to do. */
    private boolean step(boolean catchingUp) {
        StepOutput output;
        try {
            output = backend.submit(batch.input()).await();
        } catch (SequenceFaultException fault) {
            exclude(batch.sequence(fault.sequence()), fault);
            return true;
        }
        if (!catchingUp) {
            lastDraftStepNanos = output.times().totalNanos();
        }
        int row = 0;
        for (int i = 0; i < batch.numSequences(); i++) {
            DraftSequence draft = batch.sequence(i);
            boolean drew = batch.numTokensOf(i) == draft.numUncomputed();
            draft.advance(batch.numTokensOf(i));
            markConfirmed(draft);
            if (drew) {
                draft.propose(output.tokenIds()[row], batch.row(row).sampling().distribution());
                row++;
            }
        }
        return true;
    }

    /**
     * Full blocks of tokens that are the sequence's own for good can be found by others. Not the one of its last token: that
     * is computed again if the target draws nothing.
     */
    private void markConfirmed(DraftSequence draft) {
        Sequence sequence = draft.sequence;
        int end = Math.min(draft.numComputed, sequence.numTokens() - 1);
        if (end > draft.numMarked) {
            blocks.markComputed(
                    draft.table,
                    sequence.tokenIds(),
                    draft.numMarked,
                    end,
                    sequence.group().salt());
            draft.numMarked = end;
        }
    }

    private LogitsRow row(DraftSequence draft, int token) {
        Sequence sequence = draft.sequence;
        SequenceGroup group = sequence.group();
        int place = sequence.numProposedTokens();
        int outputPosition = sequence.numOutputTokens() + place;
        RowSampling sampling = new RowSampling(
                draft.params,
                group.sampling().sampleIndex() + sequence.sample(),
                outputPosition,
                sequence.tokenIds(),
                group.numPromptTokens(),
                sequence.numTokens() + place,
                outputPosition < group.sampling().minTokens() ? group.suppressedTokenIds() : NO_TOKENS,
                null,
                rule == AcceptanceRule.COUPLED ? null : draft.distribution(place, limits.vocabSize()));
        return LogitsRow.draw(token, sampling);
    }

    /** Forgets what the target refused and takes blocks for the round; false if the sequence must do without. */
    private boolean makeRoom(DraftSequence draft, int numWanted) {
        Sequence sequence = draft.sequence;
        draft.numWanted = Math.min(numWanted, limits.maxModelLen() - sequence.numTokens());
        if (draft.excluded || draft.numWanted < 1) {
            return false;
        }
        if (draft.table.numBlocks() == 0) {
            int numCached = blocks.allocate(
                    draft.table,
                    sequence.tokenIds(),
                    sequence.numTokens(),
                    sequence.group().salt(),
                    true,
                    0);
            if (numCached == BlockManager.NO_FREE_BLOCK) {
                return false;
            }
            draft.begin(numCached);
        } else {
            draft.rollBack();
            blocks.truncate(draft.table, draft.numComputed);
        }
        // The last proposal is not computed by the draft.
        return blocks.tryGrow(draft.table, sequence.numTokens() + draft.numWanted - 1, 0);
    }

    private void exclude(DraftSequence draft, SequenceFaultException fault) {
        draft.excluded = true;
        draft.sequence.keepProposals(0);
        round.remove(draft);
        blocks.free(draft.table);
        if (!faultLogged) {
            faultLogged = true;
            LOG.warn(
                    "the draft model failed on {} ({}): it goes on without proposals; check the draft model's weights if it"
                            + " happens again (said once)",
                    draft.sequence,
                    fault.getMessage());
        }
    }

    private void freePreempted() {
        for (Iterator<DraftSequence> all = drafts.values().iterator(); all.hasNext(); ) {
            DraftSequence draft = all.next();
            if (!draft.sequence.isRunning()) {
                blocks.free(draft.table);
                all.remove();
            }
        }
    }

    @Override
    public void forget(Sequence sequence) {
        DraftSequence draft = drafts.remove(sequence);
        if (draft != null) {
            blocks.free(draft.table);
        }
    }

    @Override
    public long lastDraftStepNanos() {
        return lastDraftStepNanos;
    }

    /** Throws IllegalStateException if the draft's blocks do not add up; for tests. */
    public void checkIntegrity() {
        blocks.checkIntegrity(drafts.values().stream().map(draft -> draft.table).toList());
    }

    @Override
    public void close() {
        backend.close();
    }
}
