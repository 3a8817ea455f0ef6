package io.millrace.job.demo;

/**
 * The unbiased estimator of pass@k: the chance that at least one of k samples drawn without replacement from n, of which c are
 * right, is right: 1 − C(n−c, k) / C(n, k) (Chen et al., Evaluating Large Language Models Trained on Code, 2021).
 */
final class PassAtK {

    private PassAtK() {}

    static double estimate(int numSamples, int numRight, int k) {
        if (numRight < 0 || numRight > numSamples || k < 1 || k > numSamples) {
            throw new IllegalArgumentException(
                    "pass@" + k + " of " + numRight + " right among " + numSamples + " samples is not defined");
        }
        double allWrong = 1;
        for (int i = 0; i < k; i++) {
            allWrong *= Math.max(0, numSamples - numRight - i) / (double) (numSamples - i);
        }
        return 1 - allWrong;
    }
}
