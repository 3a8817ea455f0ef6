package io.millrace.speculation;

/**
 * What steps cost here and now, by the number of sequences: medians of the last measurements, so that neither a step that the
 * machine kept waiting nor code that was not compiled yet counts for long. Until tokens were verified at a batch size, one is
 * taken to cost what a prompt's token costs, and little enough to be tried.
 */
final class StepCosts {
    static final int NUM_CLASSES = 64; // two per doubling of the batch
    private static final int MIN_PROMPT_TOKENS = 16;
    private static final int MIN_PLAIN_STEPS = 3;
    private static final int MIN_VERIFYING_STEPS = 3;
    private static final double MAX_UNTRIED_VERIFY_COST = 0.4; // of a plain step

    private final RecentMedian[] plainNanos = medians(NUM_CLASSES);
    private final RecentMedian[] verifyNanosPerToken = medians(NUM_CLASSES);
    private final RecentMedian[] draftStepNanos = medians(NUM_CLASSES);
    private final RecentMedian promptNanosPerToken = new RecentMedian();

    /**
     * Notes a step.
     *
     * @param numSequences that decoded
     * @param numProposedTokens verified beside their own tokens
     * @param numPromptTokens of prompts or recomputation
     */
    void observeStep(int numSequences, int numProposedTokens, int numPromptTokens, long nanos) {
        int c = batchClass(numSequences);
        if (numPromptTokens >= MIN_PROMPT_TOKENS) {
            promptNanosPerToken.add((double) nanos / (numSequences + numProposedTokens + numPromptTokens));
        } else if (numPromptTokens == 0 && numSequences > 0) {
            if (numProposedTokens == 0) {
                plainNanos[c].add(nanos);
            } else if (plainNanos[c].count() > 0) {
                verifyNanosPerToken[c].add((nanos - plainNanos[c].value()) / numProposedTokens);
            }
        }
    }

    /** Notes how long drafting a token for each of so many sequences took. */
    void observeDraftStep(int numSequences, long nanos) {
        draftStepNanos[batchClass(numSequences)].add(nanos);
    }

    /** Whether plain steps of about this batch were measured often enough to compare with. */
    boolean knowsPlainStep(int numSequences) {
        return plainNanos[batchClass(numSequences)].count() >= MIN_PLAIN_STEPS;
    }

    /** The time of a plain step of about this batch; 0 until known. */
    double plainNanos(int numSequences) {
        return plainNanos[batchClass(numSequences)].value();
    }

    /** Whether steps of about this batch verified tokens often enough to tell what that costs. */
    boolean knowsVerifyCost(int numSequences) {
        return verifyNanosPerToken[batchClass(numSequences)].count() >= MIN_VERIFYING_STEPS;
    }

    /** Plain steps that verifying one token for each sequence costs on top of a plain step. */
    double verifyCost(int numSequences) {
        int c = batchClass(numSequences);
        if (verifyNanosPerToken[c].count() > 0) {
            return Math.max(0, verifyNanosPerToken[c].value()) * numSequences / plainNanos[c].value();
        }
        double likePrompt = promptNanosPerToken.value() * numSequences / plainNanos[c].value();
        return Math.min(MAX_UNTRIED_VERIFY_COST, likePrompt);
    }

    /** Plain steps that drafting one token for each sequence costs; 0 until known. */
    double draftCost(int numSequences) {
        int c = batchClass(numSequences);
        return draftStepNanos[c].value() / plainNanos[c].value();
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

    private static RecentMedian[] medians(int count) {
        RecentMedian[] all = new RecentMedian[count];
        for (int i = 0; i < count; i++) {
            all[i] = new RecentMedian();
        }
        return all;
    }
}
