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
public record TierCost(Roofline roofline, double loadBytesPerSecond) {

    public TierCost {
        Objects.requireNonNull(roofline);
        InvalidPlanException.requirePositive("--disk-bandwidth", loadBytesPerSecond, "try 2g (bytes/s)");
    }

    public double loadSeconds(long numTokens) {
        return numTokens * roofline.cost().kvBytesPerToken() / loadBytesPerSecond;
    }

    /** Computing the tokens in [firstToken, endToken) when all before them are there. */
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

    /**
     * Where computing forward from token 0 and loading backward from the end of numTokens meet: the tokens that are computed.
     */
    public long meetingToken(long numTokens) {
        long low = 0;
        long high = numTokens;
        while (low < high) {
            long middle = (low + high) >>> 1;
            if (computeSeconds(0, middle) >= loadSeconds(numTokens - middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        // The meeting lies between low - 1 and low; the slower side of each decides.
        return low > 0 && bothSeconds(numTokens, low - 1) < bothSeconds(numTokens, low) ? low - 1 : low;
    }

    /** Both sides at once until they meet: never above the faster of the two alone. */
    public double bothSeconds(long numTokens) {
        return bothSeconds(numTokens, meetingToken(numTokens));
    }

    private double bothSeconds(long numTokens, long numComputed) {
        return Math.max(computeSeconds(0, numComputed), loadSeconds(numTokens - numComputed));
    }
}
