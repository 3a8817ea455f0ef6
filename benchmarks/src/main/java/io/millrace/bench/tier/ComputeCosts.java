package io.millrace.bench.tier;

/**
 * What a step's tokens cost: a prompt's token grows dearer with its position, since it attends to all before it; tokens of the
 * other requests that fill a step cost the same each.
 *
 * @param tokenSeconds of a prompt's token at position 0
 * @param positionSeconds more for every position after that
 * @param otherTokenSeconds of a token of another request
 */
public record ComputeCosts(double tokenSeconds, double positionSeconds, double otherTokenSeconds) {
    public ComputeCosts {
        if (!(tokenSeconds > 0 && positionSeconds >= 0 && otherTokenSeconds >= 0)) {
            throw new IllegalArgumentException("costs of " + tokenSeconds + " s a token, " + positionSeconds
                    + " s a position and " + otherTokenSeconds + " s a token of others: must not be negative");
        }
    }

    /** Seconds of a prompt's tokens from … end-1 by themselves. */
    public double promptSeconds(int from, int end) {
        double numTokens = end - from;
        return numTokens * (tokenSeconds + positionSeconds * (from + end - 1) / 2);
    }

    /**
     * Seconds of a prompt's tokens from … end-1 when others fill every step.
     *
     * @param computeShare of every step's tokens that are the prompt's
     */
    public double sharedPromptSeconds(int from, int end, double computeShare) {
        return promptSeconds(from, end) + (end - from) * (1 - computeShare) / computeShare * otherTokenSeconds;
    }
}
