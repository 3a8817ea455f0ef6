package io.millrace.sampling;

/**
 * The log probability of the token at one position, and the most likely alternatives, best first (ties: lower id first).
 *
 * @param tokenId the drawn (or given) token
 * @param logprob its natural-log probability
 * @param topTokenIds the alternatives' ids; empty where none were asked for
 * @param topLogprobs their log probabilities, same length
 */
public record TokenLogprobs(int tokenId, float logprob, int[] topTokenIds, float[] topLogprobs) {}
