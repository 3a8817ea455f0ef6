package io.millrace.plan;

import java.util.Objects;
import java.util.OptionalLong;

/**
 * Loading a stored prefix against computing it, and both at once from the two ends (Cake, Jin et al.). Compute is at the
 * roofline's compute rates: the weights that a chunk's step reads are read for the decodes anyway.
 *
 * @param roofline of the device
 * @param loadBytesPerSecond of the store, reading
 */
public record TierCost(Roofline roofline, double loadBytesPerSecond) implements PrefixCost {

    public TierCost {
        Objects.requireNonNull(roofline);
        InvalidPlanException.requirePositive("--disk-bandwidth", loadBytesPerSecond, "try 2g (bytes/s)");
    }

    @Override
    public double loadSeconds(long numTokens) {
        return numTokens * roofline.cost().kvBytesPerToken() / loadBytesPerSecond;
    }

    @Override
    public double computeSeconds(long firstToken, long endToken) {
        return roofline.prefillGemmSeconds(endToken - firstToken)
                + roofline.prefillAttentionSeconds(firstToken, endToken);
    }

    /**
     * The shortest prefix that loads faster than it computes: attention makes late tokens dearer to compute, never to load.
     * 1 if loading always wins; empty beyond 2^40 tokens.
     */
    public OptionalLong crossoverTokens() {
        double perToken = loadSeconds(1) - roofline.prefillGemmSeconds(1);
        if (perToken < 0) {
            return OptionalLong.of(1);
        }
        double attentionSecondsPerPair =
                roofline.cost().attentionFlopsPerPair() / roofline.rates().attentionFlopsPerSecond();
        double numTokens = 2 * perToken / attentionSecondsPerPair;
        return numTokens < 1L << 40 ? OptionalLong.of((long) Math.floor(numTokens) + 1) : OptionalLong.empty();
    }

    /** Bytes a second from which loading wins at any length. */
    public double alwaysLoadBytesPerSecond() {
        return roofline.cost().kvBytesPerToken() / roofline.prefillGemmSeconds(1);
    }
}
