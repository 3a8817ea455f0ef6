package io.millrace.sampling;

/** Which distribution reported log probabilities are of; vLLM's names. */
public enum LogprobsMode {
    /** The model's own distribution, before bias, penalties, temperature and truncation. */
    RAW_LOGPROBS,
    /** The distribution the token was drawn from. */
    PROCESSED_LOGPROBS
}
