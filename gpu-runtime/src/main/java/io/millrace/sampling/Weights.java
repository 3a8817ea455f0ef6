package io.millrace.sampling;

/** Sums of unnormalised probabilities in double, in a fixed order (eight running sums, then a tree) on every machine. */
final class Weights {
    private Weights() {}

    static double sum(float[] weights, int length) {
        double s0 = 0;
        double s1 = 0;
        double s2 = 0;
        double s3 = 0;
        double s4 = 0;
        double s5 = 0;
        double s6 = 0;
        double s7 = 0;
        int i = 0;
        for (; i + 8 <= length; i += 8) {
            s0 += weights[i];
            s1 += weights[i + 1];
            s2 += weights[i + 2];
            s3 += weights[i + 3];
            s4 += weights[i + 4];
            s5 += weights[i + 5];
            s6 += weights[i + 6];
            s7 += weights[i + 7];
        }
        double sum = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
        for (; i < length; i++) {
            sum += weights[i];
        }
        return sum;
    }

    static double sum(float[] weights, int[] ids, int numIds) {
        double sum = 0;
        for (int i = 0; i < numIds; i++) {
            sum += weights[ids[i]];
        }
        return sum;
    }
}
