package io.millrace.plan;

/**
 * Times of a prefix that can be computed from its front and loaded from its back, both at once (Cake, Jin et al.), whatever
 * they come from: published rates, or what was measured a moment ago.
 */
public interface PrefixCost {

    /** Loading so many tokens. */
    double loadSeconds(long numTokens);

    /** Computing the tokens in [firstToken, endToken) when all before them are there. */
    double computeSeconds(long firstToken, long endToken);

    /**
     * Where computing forward from token 0 and loading backward from the end of numTokens meet: the tokens that are computed.
     */
    default long meetingToken(long numTokens) {
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
    default double bothSeconds(long numTokens) {
        return bothSeconds(numTokens, meetingToken(numTokens));
    }

    /** Both sides at once if the first numComputed tokens are computed and the others loaded. */
    default double bothSeconds(long numTokens, long numComputed) {
        return Math.max(computeSeconds(0, numComputed), loadSeconds(numTokens - numComputed));
    }
}
