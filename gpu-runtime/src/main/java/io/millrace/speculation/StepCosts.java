package io.millrace.speculation;

import java.util.Arrays;

/**
 * What steps cost here and now, by the number of sequences: measured as they happen. Estimates are running medians, which
 * a measurement moves by a small step up or down, so that a step that the machine kept waiting does not count for more than
 * another. Until tokens were verified at a batch size, one is taken to cost what a prompt's token costs.
 */
final class StepCosts {
    private static final int NUM_CLASSES = 64; // two per doubling of the batch
    private static final int MIN_PROMPT_TOKENS = 16;
    private static final double SMALLEST_STEP = 0.05; // of the estimate
    private static final double UNKNOWN = -1;

    private final double[] plainNanos = unknowns();
    private final double[] verifyNanosPerToken = unknowns();
    private final double[] draftStepNanos = unknowns();
    private final int[] numPlainSteps = new int[NUM_CLASSES];
    private final int[] numVerifySteps = new int[NUM_CLASSES];
    private final int[] numDraftSteps = new int[NUM_CLASSES];
    private double promptNanosPerToken = UNKNOWN;
    private int numPromptSteps;

    /**
     * Notes a step.
     *
     * @param numSequences that decoded
     * @param numProposedTokens verified beside their own tokens
     * @param numPromptTokens of prompts or recomputation
     */
    void observeStep(int numSequences, int numProposedTokens, int numPromptTokens, long nanos) {
        if (numPromptTokens >= MIN_PROMPT_TOKENS) {
            int numTokens = numSequences + numProposedTokens + numPromptTokens;
            promptNanosPerToken = median(promptNanosPerToken, (double) nanos / numTokens, ++numPromptSteps);
        } else if (numPromptTokens == 0 && numSequences > 0) {
            int c = batchClass(numSequences);
            if (numProposedTokens == 0) {
                plainNanos[c] = median(plainNanos[c], nanos, ++numPlainSteps[c]);
            } else if (plainNanos[c] != UNKNOWN) {
                observeVerification(c, numProposedTokens, nanos);
            }
        }
    }

    /** Moves the cost of a verified token by a part of a plain step that the proposals share. */
    private void observeVerification(int c, int numProposedTokens, long nanos) {
        double before = verifyNanosPerToken(c);
        double perToken = (nanos - plainNanos[c]) / numProposedTokens;
        if (before == UNKNOWN) {
            verifyNanosPerToken[c] = Math.max(0, perToken);
        } else {
            double step = step(++numVerifySteps[c]) * plainNanos[c] / numProposedTokens;
            double limited = Math.max(before - step, Math.min(before + step, perToken));
            verifyNanosPerToken[c] = Math.max(0, limited);
        }
    }

    /** Notes how long drafting a token for each of so many sequences took. */
    void observeDraftStep(int numSequences, long nanos) {
        int c = batchClass(numSequences);
        draftStepNanos[c] = median(draftStepNanos[c], nanos, ++numDraftSteps[c]);
    }

    /** Whether plain steps of about this batch were measured often enough to compare with. */
    boolean knowsPlainStep(int numSequences) {
        return numPlainSteps[batchClass(numSequences)] >= 3;
    }

    /** Plain steps that verifying one token for each sequence costs on top of a plain step. */
    double verifyCost(int numSequences) {
        int c = batchClass(numSequences);
        return Math.max(0, verifyNanosPerToken(c)) * numSequences / plainNanos[c];
    }

    /** Plain steps that drafting one token for each sequence costs; 0 until known. */
    double draftCost(int numSequences) {
        int c = batchClass(numSequences);
        return Math.max(0, draftStepNanos[c]) / plainNanos[c];
    }

    private double verifyNanosPerToken(int c) {
        return verifyNanosPerToken[c] == UNKNOWN ? promptNanosPerToken : verifyNanosPerToken[c];
    }

    private static double median(double before, double newest, int count) {
        if (before == UNKNOWN) {
            return newest;
        }
        double step = step(count) * before;
        return Math.max(before - step, Math.min(before + step, newest));
    }

    /** Large for the first measurements, which may be far off: code that is not compiled yet runs slowly. */
    private static double step(int count) {
        return Math.max(SMALLEST_STEP, 0.5 / Math.sqrt(count));
    }

    /** 1, 2, 3, 4, 5–6, 7–8, 9–12, …: equal classes differ by less than half. */
    static int batchClass(int numSequences) {
        if (numSequences < 3) {
            return numSequences;
        }
        int doubling = 31 - Integer.numberOfLeadingZeros(numSequences - 1);
        int upperHalf = (numSequences - 1) >> (doubling - 1) & 1;
        return 2 * doubling + 1 + upperHalf;
    }

    private static double[] unknowns() {
        double[] values = new double[NUM_CLASSES];
        Arrays.fill(values, UNKNOWN);
        return values;
    }
}
