package io.millrace.plan;

/**
 * What drafting γ tokens ahead gains, after Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative
 * Decoding": tokens per pass (1 − α^(γ+1)) / (1 − α), at the price of γ drafts and one verification.
 *
 * @param draftCost c: time of a draft step over that of a plain target step; 0 for prompt lookup
 * @param acceptanceRate α: chance that a drafted token is accepted, the ones before it accepted
 */
public record SpeculationCost(double draftCost, double acceptanceRate) {

    public SpeculationCost {
        if (!(draftCost >= 0) || Double.isInfinite(draftCost)) {
            throw new InvalidPlanException(
                    "--draft-cost",
                    draftCost,
                    "must be a number from 0",
                    "use 0 for prompt lookup, 0.15 for a draft model");
        }
        if (!(acceptanceRate >= 0 && acceptanceRate <= 1)) {
            throw new InvalidPlanException("--acceptance-rate", acceptanceRate, "must lie in [0, 1]", "try 0.8");
        }
    }

    /** Expected tokens that one verification yields, the target's own token included. */
    public double tokensPerPass(int numDraftTokens) {
        double sum = 0;
        double probability = 1;
        for (int i = 0; i <= numDraftTokens; i++) {
            sum += probability;
            probability *= acceptanceRate;
        }
        return sum;
    }

    /** Speed over plain decoding where verifying γ + 1 tokens takes as long as decoding one: memory-bound steps. */
    public double speedup(int numDraftTokens) {
        return speedup(numDraftTokens, 1);
    }

    /** Speed over plain decoding where the verifying step takes verifyCost plain steps. */
    public double speedup(int numDraftTokens, double verifyCost) {
        return tokensPerPass(numDraftTokens) / (numDraftTokens * draftCost + verifyCost);
    }

    /** Speed over plain decoding at a batch: the roofline says what verifying costs there. */
    public double speedup(int numDraftTokens, Roofline target, long numSequences, long contextTokens) {
        double verifyCost = target.stepSeconds(numSequences, contextTokens, numDraftTokens + 1)
                / target.stepSeconds(numSequences, contextTokens);
        return speedup(numDraftTokens, verifyCost);
    }

    /** The best number of draft tokens up to a limit at a batch; 0, speculation off, where none is faster than plain. */
    public int bestNumDraftTokens(int maxDraftTokens, Roofline target, long numSequences, long contextTokens) {
        int best = 0;
        double bestSpeedup = 1;
        for (int gamma = 1; gamma <= maxDraftTokens; gamma++) {
            double speedup = speedup(gamma, target, numSequences, contextTokens);
            if (speedup > bestSpeedup) {
                best = gamma;
                bestSpeedup = speedup;
            }
        }
        return best;
    }

    /**
     * The best number of draft tokens up to a limit where each costs costPerToken plain steps to verify; 0, speculation off,
     * where none is faster than plain.
     */
    public int bestNumDraftTokens(int maxDraftTokens, double costPerToken) {
        int best = 0;
        double bestSpeedup = 1;
        for (int gamma = 1; gamma <= maxDraftTokens; gamma++) {
            double speedup = speedup(gamma, 1 + gamma * costPerToken);
            if (speedup > bestSpeedup) {
                best = gamma;
                bestSpeedup = speedup;
            }
        }
        return best;
    }
}
