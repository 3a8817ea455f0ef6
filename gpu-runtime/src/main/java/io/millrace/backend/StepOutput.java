package io.millrace.backend;

import io.millrace.sampling.TokenLogprobs;

/**
 * What a step drew.
 *
 * @param tokenIds [rows] the drawn token per {@link LogitsRow}, in order; the target of a row that only scores
 * @param logprobs [rows] null where the row asked for none
 * @param times where the step's time went
 */
public record StepOutput(int[] tokenIds, TokenLogprobs[] logprobs, StepTimes times) {}
