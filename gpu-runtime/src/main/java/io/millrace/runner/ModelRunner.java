package io.millrace.runner;

import io.millrace.backend.Backend;
import io.millrace.backend.BatchInput;
import io.millrace.backend.LogitsRow;
import io.millrace.backend.StepOutput;
import io.millrace.kvcache.BlockTable;
import io.millrace.sampling.RowSampling;
import io.millrace.scheduler.ScheduledBatch;
import io.millrace.scheduler.ScheduledSequence;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * Lays a scheduled batch out as a {@link BatchInput} in arrays that it reuses, runs it, and tells whose each row of the
 * output is. Sequences that share blocks are put next to each other, so that a backend finds what to read once. Engine
 * thread only.
 */
public final class ModelRunner {
    private static final int[] NO_TOKENS = {};
    private static final Comparator<ScheduledSequence> SHARERS_ADJACENT = ModelRunner::compareTables;

    private final Backend backend;
    private final int blockSize;
    private final int[] tokenIds;
    private final int[] positions;
    private final int[] slotMapping;
    private final int[] queryStarts;
    private final int[] contextLengths;
    private final int[][] blockTables;
    private final List<LogitsRow> rows = new ArrayList<>();
    private final List<Sequence> rowSequences = new ArrayList<>();
    private int[] scoredPositions = new int[64];
    private int[] numDraws = new int[64];

    /**
     * A runner.
     *
     * @param maxNumBatchedTokens most tokens of a step
     * @param maxNumSeqs most sequences of a step
     */
    public ModelRunner(Backend backend, int blockSize, int maxNumBatchedTokens, int maxNumSeqs) {
        this.backend = backend;
        this.blockSize = blockSize;
        tokenIds = new int[maxNumBatchedTokens];
        positions = new int[maxNumBatchedTokens];
        slotMapping = new int[maxNumBatchedTokens];
        queryStarts = new int[maxNumSeqs + 1];
        contextLengths = new int[maxNumSeqs];
        blockTables = new int[maxNumSeqs][];
    }

    /**
     * Runs the batch; sorts its sequences.
     *
     * @throws io.millrace.backend.SequenceFaultException naming the place in the sorted batch of the sequence at fault
     */
    public StepOutput run(ScheduledBatch batch) {
        return backend.submit(prepare(batch)).await();
    }

    /** Rows of the last run. */
    public int numRows() {
        return rows.size();
    }

    /** Whose token or whose prompt's score row r of the last run is. */
    public Sequence rowSequence(int row) {
        return rowSequences.get(row);
    }

    /** The prompt position that row r of the last run scores; -1 for a row that draws. */
    public int scoredPosition(int row) {
        return scoredPositions[row];
    }

    /**
     * For a sequence's first row that draws in the last run: how many rows draw for it, one more than proposals were computed.
     */
    public int numDraws(int row) {
        return numDraws[row];
    }

    BatchInput prepare(ScheduledBatch batch) {
        rows.clear();
        rowSequences.clear();
        List<ScheduledSequence> sequences = batch.sequences();
        sequences.sort(SHARERS_ADJACENT);
        int numTokens = 0;
        for (int s = 0; s < sequences.size(); s++) {
            ScheduledSequence scheduled = sequences.get(s);
            queryStarts[s] = numTokens;
            contextLengths[s] = scheduled.endPosition();
            blockTables[s] = scheduled.sequence().blockTable().blocks();
            layOutTokens(scheduled, numTokens);
            addScoreRows(scheduled, numTokens);
            numTokens += scheduled.numTokens();
            addDrawRows(scheduled, numTokens - 1 - scheduled.numProposedTokens());
        }
        queryStarts[sequences.size()] = numTokens;
        return new BatchInput(
                numTokens,
                tokenIds,
                positions,
                slotMapping,
                sequences.size(),
                queryStarts,
                contextLengths,
                blockTables,
                rows,
                batch.numCopies(),
                batch.copySources(),
                batch.copyDestinations());
    }

    private void layOutTokens(ScheduledSequence scheduled, int firstToken) {
        Sequence sequence = scheduled.sequence();
        int first = scheduled.firstPosition();
        int count = scheduled.numTokens();
        System.arraycopy(sequence.tokenIds(), first, tokenIds, firstToken, count);
        int[] blocks = sequence.blockTable().blocks();
        for (int i = 0; i < count; i++) {
            int position = first + i;
            positions[firstToken + i] = position;
            slotMapping[firstToken + i] = blocks[position / blockSize] * blockSize + position % blockSize;
        }
    }

    /** The logits of a prompt position score the next position's token. */
    private void addScoreRows(ScheduledSequence scheduled, int firstToken) {
        Sequence sequence = scheduled.sequence();
        SequenceGroup group = sequence.group();
        if (!group.needsPromptScores()) {
            return;
        }
        int numLogprobs = group.sampling().numPromptLogprobs();
        for (int i = 0; i < scheduled.numTokens(); i++) {
            int scored = scheduled.firstPosition() + i + 1;
            if (group.needsScore(scored)) {
                addRow(
                        LogitsRow.score(firstToken + i, group.promptTokenIds()[scored], numLogprobs),
                        sequence,
                        scored,
                        0);
            }
        }
    }

    private void addDrawRows(ScheduledSequence scheduled, int token) {
        if (scheduled.draws()) {
            for (int i = 0; i <= scheduled.numProposedTokens(); i++) {
                addDrawRow(scheduled.sequence(), token + i, i, scheduled.numProposedTokens());
            }
        }
        List<Sequence> forks = scheduled.forks();
        for (int i = 0; i < forks.size(); i++) {
            if (forks.get(i).numOutputTokens() == 0) {
                addDrawRow(forks.get(i), token, 0, 0);
            }
        }
    }

    /** A row that draws after the sequence's tokens and the first place of those proposed: as if they had been drawn. */
    private void addDrawRow(Sequence sequence, int token, int place, int numProposedTokens) {
        SequenceGroup group = sequence.group();
        int numOutputTokens = sequence.numOutputTokens() + place;
        RowSampling sampling = new RowSampling(
                group.sampling(),
                group.sampling().sampleIndex() + sequence.sample(),
                numOutputTokens,
                sequence.tokenIds(),
                group.numPromptTokens(),
                sequence.numTokens() + place,
                numOutputTokens < group.sampling().minTokens() ? group.suppressedTokenIds() : NO_TOKENS,
                place < numProposedTokens ? sequence.proposal(place) : null,
                null);
        addRow(LogitsRow.draw(token, sampling), sequence, -1, 1 + numProposedTokens - place);
    }

    private void addRow(LogitsRow row, Sequence sequence, int scoredPosition, int numDrawsFromHere) {
        if (rows.size() == scoredPositions.length) {
            scoredPositions = Arrays.copyOf(scoredPositions, 2 * scoredPositions.length);
            numDraws = Arrays.copyOf(numDraws, 2 * numDraws.length);
        }
        scoredPositions[rows.size()] = scoredPosition;
        numDraws[rows.size()] = numDrawsFromHere;
        rows.add(row);
        rowSequences.add(sequence);
    }

    /** By block tables, so that equal fronts are adjacent. */
    private static int compareTables(ScheduledSequence a, ScheduledSequence b) {
        BlockTable left = a.sequence().blockTable();
        BlockTable right = b.sequence().blockTable();
        return Arrays.compare(left.blocks(), 0, left.numBlocks(), right.blocks(), 0, right.numBlocks());
    }
}
