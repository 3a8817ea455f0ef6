package io.millrace.speculation;

import io.millrace.backend.BatchInput;
import io.millrace.backend.LogitsRow;
import java.util.ArrayList;
import java.util.List;

/** A draft model's step, laid out in arrays that are reused. */
final class DraftBatch {
    private static final int[] NO_COPIES = {};

    private final int blockSize;
    private final int[] tokenIds;
    private final int[] positions;
    private final int[] slotMapping;
    private final int[] queryStarts;
    private final int[] contextLengths;
    private final int[][] blockTables;
    private final List<DraftSequence> sequences = new ArrayList<>();
    private final List<LogitsRow> rows = new ArrayList<>();
    private int numTokens;

    DraftBatch(int blockSize, int maxNumBatchedTokens, int maxNumSeqs) {
        this.blockSize = blockSize;
        tokenIds = new int[maxNumBatchedTokens];
        positions = new int[maxNumBatchedTokens];
        slotMapping = new int[maxNumBatchedTokens];
        queryStarts = new int[maxNumSeqs + 1];
        contextLengths = new int[maxNumSeqs];
        blockTables = new int[maxNumSeqs][];
    }

    void clear() {
        sequences.clear();
        rows.clear();
        numTokens = 0;
    }

    int numTokens() {
        return numTokens;
    }

    int numTokensLeft() {
        return tokenIds.length - numTokens;
    }

    /** Adds a sequence's next count tokens; row draws from the last of them, or is null. */
    void add(DraftSequence draft, int count, LogitsRow row) {
        int s = sequences.size();
        int[] blocks = draft.table.blocks();
        System.arraycopy(draft.sequence.tokenIds(), draft.numComputed, tokenIds, numTokens, count);
        for (int i = 0; i < count; i++) {
            int position = draft.numComputed + i;
            positions[numTokens + i] = position;
            slotMapping[numTokens + i] = blocks[position / blockSize] * blockSize + position % blockSize;
        }
        queryStarts[s] = numTokens;
        numTokens += count;
        queryStarts[s + 1] = numTokens;
        contextLengths[s] = draft.numComputed + count;
        blockTables[s] = blocks;
        sequences.add(draft);
        if (row != null) {
            rows.add(row);
        }
    }

    int numSequences() {
        return sequences.size();
    }

    DraftSequence sequence(int place) {
        return sequences.get(place);
    }

    int numTokensOf(int place) {
        return queryStarts[place + 1] - queryStarts[place];
    }

    LogitsRow row(int place) {
        return rows.get(place);
    }

    BatchInput input() {
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
                0,
                NO_COPIES,
                NO_COPIES);
    }
}
