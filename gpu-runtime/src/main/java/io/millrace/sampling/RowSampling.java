package io.millrace.sampling;

/**
 * What a sampler needs to know of one row of logits, beside the logits: settings, the random counter and the tokens that
 * penalties count. A draw is a pure function of this and the logits; it never depends on the row's place in a batch.
 *
 * @param params the request's settings
 * @param sampleIndex absolute sample index i of the random counter (params.sampleIndex() + the sample's place)
 * @param outputPosition output position p of the token to draw, from 0
 * @param tokenIds prompt and output so far; only the first numTokens count; owned by the sequence, not to be kept
 * @param numPromptTokens how many of them are prompt
 * @param numTokens prompt plus output tokens so far
 * @param suppressedTokenIds ids that must not be drawn (EOS and stop ids until min_tokens is reached); may be empty
 * @param proposal a draft's proposal to accept or to replace by a token of the residual; null draws with the row's own noise
 * @param distribution receives the distribution drawn from, [vocabSize]; null where nobody wants it
 */
public record RowSampling(
        SamplingParams params,
        int sampleIndex,
        int outputPosition,
        int[] tokenIds,
        int numPromptTokens,
        int numTokens,
        int[] suppressedTokenIds,
        Proposal proposal,
        float[] distribution) {

    /** A plain draw. */
    public RowSampling(
            SamplingParams params,
            int sampleIndex,
            int outputPosition,
            int[] tokenIds,
            int numPromptTokens,
            int numTokens,
            int[] suppressedTokenIds) {
        this(params, sampleIndex, outputPosition, tokenIds, numPromptTokens, numTokens, suppressedTokenIds, null, null);
    }
}
