package io.millrace.sampling;

import java.util.Map;

/**
 * What is added to single tokens' logits before temperature, in place: logit bias, suppressed ids, repetition penalty
 * (tokens of prompt or output), frequency and presence penalty (tokens of the output). Touches only those tokens; its
 * counts are cleared the same way. One per compute thread.
 */
final class LogitAdjustments {
    private final int vocabSize;
    /** Per id: occurrences in the output + 1 for tokens met, 0 for all others; all 0 between calls. */
    private final int[] counts;

    private final int[] met;

    LogitAdjustments(int vocabSize) {
        this.vocabSize = vocabSize;
        this.counts = new int[vocabSize];
        this.met = new int[vocabSize];
    }

    /** Whether the row changes any logit. */
    static boolean areNeeded(RowSampling row) {
        return row.suppressedTokenIds().length > 0
                || !row.params().logitBias().isEmpty()
                || (row.params().hasPenalties() && row.numTokens() > 0);
    }

    void apply(float[] logits, int offset, RowSampling row) {
        SamplingParams params = row.params();
        if (!params.logitBias().isEmpty()) {
            for (Map.Entry<Integer, Float> bias : params.logitBias().entrySet()) {
                logits[offset + checked("logit_bias", bias.getKey())] += bias.getValue();
            }
        }
        for (int tokenId : row.suppressedTokenIds()) {
            logits[offset + checked("stop_token_ids", tokenId)] = Float.NEGATIVE_INFINITY;
        }
        if (params.hasPenalties()) {
            penalise(logits, offset, row);
        }
    }

    private void penalise(float[] logits, int offset, RowSampling row) {
        SamplingParams params = row.params();
        int[] tokenIds = row.tokenIds();
        int numMet = 0;
        for (int i = 0; i < row.numTokens(); i++) {
            int tokenId = tokenIds[i];
            if (counts[tokenId] == 0) {
                counts[tokenId] = 1;
                met[numMet++] = tokenId;
            }
            if (i >= row.numPromptTokens()) {
                counts[tokenId]++;
            }
        }
        for (int i = 0; i < numMet; i++) {
            int tokenId = met[i];
            int numInOutput = counts[tokenId] - 1;
            counts[tokenId] = 0;
            float logit = logits[offset + tokenId];
            logit = logit > 0 ? logit / params.repetitionPenalty() : logit * params.repetitionPenalty();
            if (numInOutput > 0) {
                logit -= numInOutput * params.frequencyPenalty();
                logit -= params.presencePenalty();
            }
            logits[offset + tokenId] = logit;
        }
    }

    private int checked(String setting, int tokenId) {
        if (tokenId < 0 || tokenId >= vocabSize) {
            throw new InvalidSamplingException(
                    setting,
                    tokenId,
                    "is outside of the vocabulary of " + vocabSize,
                    "use ids of this model's tokenizer");
        }
        return tokenId;
    }
}
