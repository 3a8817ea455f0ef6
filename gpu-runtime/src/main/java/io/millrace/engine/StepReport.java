package io.millrace.engine;

import io.millrace.sampling.TokenLogprobs;
import java.util.List;

/**
 * What one step did, as the owner of the ledger needs it: the new tokens of every sample that got one, what finished, what
 * failed. Immutable; handed from the engine thread to the listener. Only samples with news are listed.
 *
 * @param step number of the step since the engine started
 * @param deltas news per sample
 * @param promptScores prompt log probabilities that became complete in this step
 * @param failures requests that failed; none of their samples goes on
 */
public record StepReport(
        long step, List<SampleDelta> deltas, List<PromptScores> promptScores, List<RequestFailure> failures) {

    /**
     * News of one sample.
     *
     * @param requestId the request
     * @param sample the sample's place in the request, 0 … n-1 (not shifted by sample_index)
     * @param tokenIds new output tokens, in order; empty when a sample finishes without one
     * @param logprobs per new token, or null where the request asked for none
     * @param finished null while the sample goes on
     */
    public record SampleDelta(
            String requestId, int sample, int[] tokenIds, TokenLogprobs[] logprobs, Finished finished) {}

    /**
     * How a sample ended.
     *
     * @param reason why
     * @param stopText the stop text that matched, or null
     * @param stopTokenId the stop token id that ended it (not EOS), or -1
     * @param text the sample's whole text, or null when the model has no tokenizer
     * @param numCachedTokens prompt tokens whose KV was found in memory when the request was admitted
     * @param numTierTokens prompt tokens whose KV was loaded from the prefix store
     * @param queueNanos from submission to first scheduling
     * @param firstTokenNanos from submission to the first token
     * @param decodeNanos from the first to the last token
     */
    public record Finished(
            FinishReason reason,
            String stopText,
            int stopTokenId,
            String text,
            int numCachedTokens,
            int numTierTokens,
            long queueNanos,
            long firstTokenNanos,
            long decodeNanos) {}

    /** Log probabilities of a prompt's tokens; entry 0 is null (the first token has no context). */
    public record PromptScores(String requestId, TokenLogprobs[] logprobs) {}

    /**
     * A request that failed as a whole.
     *
     * @param code snake_case error code
     * @param message what and where
     * @param remedy how to mend it
     */
    public record RequestFailure(String requestId, String code, String message, String remedy) {}
}
