package io.millrace.bench.scenario;

import java.util.Arrays;

/** How far a prompt was computed by when; between two observations as if evenly. One thread. */
final class ComputeCurve {
    private int[] tokens = new int[16];
    private double[] seconds = new double[16];
    private int count = 1; // no token at 0 s

    /** Notes how many tokens are computed, and when that was seen; both never less than before. */
    void add(int numTokens, double atSeconds) {
        if (count == tokens.length) {
            tokens = Arrays.copyOf(tokens, 2 * count);
            seconds = Arrays.copyOf(seconds, 2 * count);
        }
        tokens[count] = numTokens;
        seconds[count++] = atSeconds;
    }

    /** Seconds until so many tokens were computed; the last observation's where there were never so many. */
    double secondsUntil(int numTokens) {
        for (int i = 1; i < count; i++) {
            if (tokens[i] >= numTokens) {
                int step = tokens[i] - tokens[i - 1];
                double share = step == 0 ? 1 : (double) (numTokens - tokens[i - 1]) / step;
                return seconds[i - 1] + share * (seconds[i] - seconds[i - 1]);
            }
        }
        return seconds[count - 1];
    }
}
