package io.millrace.backend.cpu;

import io.millrace.backend.BatchInput;
import io.millrace.backend.LogitsRow;
import java.util.Arrays;
import java.util.List;

/**
 * The tokens of a step that a layer's work goes on with once its keys and values are stored, a row each, ascending: all of
 * them, or in the last layer only those whose logits are wanted, since nothing reads what the others would become. Built by
 * the engine thread, then read by the compute threads. Reuses its arrays.
 */
final class TokenRows {
    private int[] tokens = new int[64];
    private int[] sequenceStarts = new int[64];
    private int[] rowsOfLogits = new int[64];
    private int numRows;

    void setAll(BatchInput batch) {
        numRows = batch.numTokens();
        tokens = grown(tokens, numRows);
        for (int row = 0; row < numRows; row++) {
            tokens[row] = row;
        }
        sequenceStarts = grown(sequenceStarts, batch.numSequences() + 1);
        System.arraycopy(batch.queryStarts(), 0, sequenceStarts, 0, batch.numSequences() + 1);
    }

    /**
     * Keeps the tokens whose logits are wanted, each once.
     *
     * @throws IllegalArgumentException if these do not ascend or are not the batch's
     */
    void setWanted(BatchInput batch) {
        List<LogitsRow> wanted = batch.logitsRows();
        tokens = grown(tokens, wanted.size());
        rowsOfLogits = grown(rowsOfLogits, wanted.size());
        numRows = 0;
        for (int i = 0; i < wanted.size(); i++) {
            int token = wanted.get(i).tokenIndex();
            int last = numRows == 0 ? -1 : tokens[numRows - 1];
            if (token < Math.max(0, last) || token >= batch.numTokens()) {
                throw new IllegalArgumentException("logits row " + i + " is of token " + token
                        + ", which must be below " + batch.numTokens() + " and not below the row before's, " + last);
            }
            if (token != last) {
                tokens[numRows++] = token;
            }
            rowsOfLogits[i] = numRows - 1;
        }
        sequenceStarts = grown(sequenceStarts, batch.numSequences() + 1);
        int row = 0;
        for (int s = 0; s <= batch.numSequences(); s++) {
            while (row < numRows && tokens[row] < batch.queryStarts()[s]) {
                row++;
            }
            sequenceStarts[s] = row;
        }
    }

    private static int[] grown(int[] array, int count) {
        return count <= array.length ? array : Arrays.copyOf(array, Math.max(count, 2 * array.length));
    }

    int numRows() {
        return numRows;
    }

    /** The row's token, as an index into the batch. */
    int token(int row) {
        return tokens[row];
    }

    /** The row of a logits row's token, of those kept by {@link #setWanted}. */
    int rowOfLogits(int logitsRow) {
        return rowsOfLogits[logitsRow];
    }

    /** The first row of a sequence, or of those after it where it has none; of numSequences, the number of rows. */
    int firstRow(int sequence) {
        return sequenceStarts[sequence];
    }

    int numRows(int sequence) {
        return sequenceStarts[sequence + 1] - sequenceStarts[sequence];
    }
}
