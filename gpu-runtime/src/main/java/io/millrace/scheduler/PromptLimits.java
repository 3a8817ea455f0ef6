package io.millrace.scheduler;

/**
 * How much of prompts a step computes at most.
 *
 * @param maxTokens of all prompts
 * @param maxOtherTokens of prompts that are not being loaded; at most maxTokens
 */
public record PromptLimits(int maxTokens, int maxOtherTokens) {
    public PromptLimits {
        if (maxOtherTokens < 0 || maxOtherTokens > maxTokens) {
            throw new IllegalArgumentException(
                    maxOtherTokens + " tokens of other prompts in a step of at most " + maxTokens + " of all");
        }
    }
}
