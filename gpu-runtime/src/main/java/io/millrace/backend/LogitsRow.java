package io.millrace.backend;

import io.millrace.sampling.RowSampling;

/**
 * A token of the batch whose logits are needed: to draw the next token, to score a given one, or both are never asked of
 * one row.
 *
 * @param tokenIndex which token of the batch
 * @param sampling how to draw; null for a row that only scores
 * @param targetTokenId the token to score where sampling is null
 * @param numLogprobs alternatives to report; 0 the token's own log probability; -1 nothing
 */
public record LogitsRow(int tokenIndex, RowSampling sampling, int targetTokenId, int numLogprobs) {

    public static LogitsRow draw(int tokenIndex, RowSampling sampling) {
        return new LogitsRow(tokenIndex, sampling, -1, sampling.params().numLogprobs());
    }

    public static LogitsRow score(int tokenIndex, int targetTokenId, int numLogprobs) {
        return new LogitsRow(tokenIndex, null, targetTokenId, numLogprobs);
    }
}
