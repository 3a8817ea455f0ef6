package io.millrace.engine;

import io.millrace.backend.StepOutput;
import io.millrace.sequence.Sequence;
import java.util.Arrays;

/**
 * Which of a step's drawn tokens count, row by row. A sequence with proposals drew a token after its last token and one after
 * every proposal; they count up to and with the first that differs from the proposal there, or that ends the sample. Engine
 * thread only.
 */
final class Verification {
    private int[] numTaken = new int[64];

    /** Tokens that count from this row on, for the first row of a sequence's draws. */
    int numTaken(int row) {
        return numTaken[row];
    }

    /**
     * Hands a sequence's drawn tokens to its sample, as many as count, and makes the proposals among them the sequence's own.
     *
     * @param row the first of the sequence's rows
     * @return how many proposals were accepted; the sample may have ended before the last of them
     */
    int take(Sequence sequence, SampleOutput sample, StepOutput output, int row) {
        int numProposed = sequence.numProposedTokens();
        int numAccepted = 0;
        int taken = 0;
        boolean goesOn = true;
        while (goesOn) {
            int tokenId = output.tokenIds()[row + taken];
            boolean accepted = taken < numProposed && tokenId == sequence.tokenIds()[sequence.numTokens() + taken];
            numAccepted += accepted ? 1 : 0;
            goesOn = !sample.append(tokenId) && accepted;
            taken++;
        }
        if (row >= numTaken.length) {
            numTaken = Arrays.copyOf(numTaken, Math.max(row + 1, 2 * numTaken.length));
        }
        numTaken[row] = taken;
        sequence.acceptProposals(taken - 1);
        return numAccepted;
    }
}
