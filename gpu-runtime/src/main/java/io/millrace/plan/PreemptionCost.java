package io.millrace.plan;

import java.util.Objects;

/**
 * What getting a preempted sequence back costs: its KV moved to the host and back, or computed again (vLLM's two modes).
 *
 * @param roofline of the device
 * @param linkBytesPerSecond to the host, each way
 */
public record PreemptionCost(Roofline roofline, double linkBytesPerSecond) {

    /** How a preempted sequence comes back. */
    public enum Restore {
        SWAP,
        RECOMPUTE
    }

    public PreemptionCost {
        Objects.requireNonNull(roofline);
        InvalidPlanException.requirePositive("--link-bandwidth", linkBytesPerSecond, "try 50g (bytes/s)");
    }

    /** Moving the KV of numTokens tokens, one way. */
    public double swapSecondsOneWay(long numTokens) {
        return numTokens * roofline.cost().kvBytesPerToken() / linkBytesPerSecond;
    }

    public double recomputeSeconds(long numTokens) {
        return roofline.prefillSeconds(numTokens);
    }

    /** The cheaper way, a swap counted out and in; recompute at a tie, as it needs no host memory. */
    public Restore cheaper(long numTokens) {
        return 2 * swapSecondsOneWay(numTokens) < recomputeSeconds(numTokens) ? Restore.SWAP : Restore.RECOMPUTE;
    }
}
