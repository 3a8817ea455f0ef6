package io.millrace.sampling;

import io.millrace.kernels.LogitKernels;
import java.util.Arrays;

/**
 * Draws tokens from rows of logits. Order of application: logit bias and suppressed ids, repetition penalty (prompt and
 * output), frequency and presence penalty (output), temperature, min_p, top_k, top_p (measured after top_k); ties keep
 * the lower id. Temperature 0 takes the greatest logit after bias and penalties, ties the lower id.
 *
 * <p>A draw is a pure function of logits and {@link RowSampling}: equal bits in the interpreter and compiled, with and
 * without the Vector API, on every thread. A token that weighs less than e^-87 of the most likely one is never drawn.
 *
 * <p>A row with a {@link Proposal} is drawn by the rule of accepting and resampling instead, from streams of noise of their
 * own: the token has the same distribution, and is the proposal as often as can be.
 *
 * <p>Owned by one thread at a time: holds scratch sized to the vocabulary, and allocates nothing unless log probabilities
 * or a logit bias are asked for, or a row has a proposal for the first time.
 */
public final class Sampler {
    /** Keeps (logit - max) × 1 / temperature away from 0 × infinity; such temperatures are greedy in effect. */
    private static final float MAX_SCALE = 1e30f;

    private final int vocabSize;
    private final LogprobsMode mode;
    private final LogitKernels kernels;
    private final LogitAdjustments adjustments;
    private final Truncation truncation;
    private final GumbelDraw gumbel;
    private final float[] weights;
    /** The row as the model gave it, where bias or penalties overwrite it and raw log probabilities are asked for. */
    private float[] rawLogits;

    /** Distributions of a row with a proposal; allocated for the first one. */
    private float[] target;

    private float[] residual;
    private TokenLogprobs lastLogprobs;

    /** Samples with the fastest kernels of this JVM. */
    public Sampler(int vocabSize, LogprobsMode mode) {
        this(vocabSize, mode, LogitKernels.fastest());
    }

    Sampler(int vocabSize, LogprobsMode mode, LogitKernels kernels) {
        if (vocabSize < 1) {
            throw new IllegalArgumentException("vocabSize = " + vocabSize + " must be at least 1");
        }
        this.vocabSize = vocabSize;
        this.mode = mode;
        this.kernels = kernels;
        this.adjustments = new LogitAdjustments(vocabSize);
        this.truncation = new Truncation(kernels, vocabSize);
        this.gumbel = new GumbelDraw(kernels, vocabSize);
        this.weights = new float[vocabSize];
    }

    /**
     * Draws one token.
     *
     * @param logits [offset … offset + vocabSize) is the row; bias and penalties are applied in place
     * @throws NonFiniteLogitsException when the greatest logit is NaN or infinite
     * @throws InvalidSamplingException when a biased or suppressed id is outside of the vocabulary
     */
    public int draw(float[] logits, int offset, RowSampling row) {
        SamplingParams params = row.params();
        lastLogprobs = null;
        boolean wantsRaw = params.numLogprobs() >= 0 && mode == LogprobsMode.RAW_LOGPROBS;
        boolean needsAdjustments = LogitAdjustments.areNeeded(row);
        if (wantsRaw && needsAdjustments) {
            keepRaw(logits, offset);
        }
        if (needsAdjustments) {
            adjustments.apply(logits, offset, row);
        }
        float max = finiteMax(logits, offset);
        int tokenId =
                params.isGreedy() ? drawGreedily(logits, offset, max, row) : drawRandomly(logits, offset, max, row);
        if (params.numLogprobs() >= 0 && params.isGreedy() && !wantsRaw) {
            lastLogprobs = score(logits, offset, tokenId, params.numLogprobs());
        }
        if (wantsRaw) {
            lastLogprobs = needsAdjustments
                    ? score(rawLogits, 0, tokenId, params.numLogprobs())
                    : score(logits, offset, tokenId, params.numLogprobs());
        }
        return tokenId;
    }

    /**
     * The log probabilities of the last draw; null when its settings asked for none. In mode PROCESSED_LOGPROBS they are of
     * the distribution drawn from, and alternatives are its survivors only; a greedy draw reports, as vLLM does, the
     * distribution after bias and penalties at temperature 1.
     */
    public TokenLogprobs lastLogprobs() {
        return lastLogprobs;
    }

    /**
     * Scores a given token under the model's own distribution. Leaves the logits as they are.
     *
     * @param numLogprobs alternatives; 0 for the token's alone
     * @return null when numLogprobs is negative
     */
    public TokenLogprobs score(float[] logits, int offset, int targetTokenId, int numLogprobs) {
        if (numLogprobs < 0) {
            return null;
        }
        float max = finiteMax(logits, offset);
        kernels.expDifferences(logits, offset, vocabSize, max, 1, weights);
        double logTotal = StrictMath.log(Weights.sum(weights, vocabSize));
        int numTop = truncation.mostLikely(logits, offset, numLogprobs);
        return report(logits[offset + targetTokenId], targetTokenId, max, 1, logTotal, numTop);
    }

    /**
     * Computes the distribution that {@link #draw} draws from; one-hot when greedy. For tests and tools.
     *
     * @param probs receives [vocabSize] probabilities that sum to 1
     */
    public void distribution(float[] logits, int offset, RowSampling row, double[] probs) {
        if (LogitAdjustments.areNeeded(row)) {
            adjustments.apply(logits, offset, row);
        }
        float max = finiteMax(logits, offset);
        Arrays.fill(probs, 0, vocabSize, 0);
        if (row.params().isGreedy()) {
            probs[kernels.firstAtLeast(logits, offset, vocabSize, max)] = 1;
            return;
        }
        float scale = scale(row.params());
        kernels.expDifferences(logits, offset, vocabSize, max, scale, weights);
        if (truncation.isOff(row.params())) {
            double total = Weights.sum(weights, vocabSize);
            for (int id = 0; id < vocabSize; id++) {
                probs[id] = weights[id] / total;
            }
            return;
        }
        int numSurvivors = truncation.apply(logits, offset, max, scale, weights, row.params());
        double total = Weights.sum(weights, truncation.ids(), numSurvivors);
        for (int i = 0; i < numSurvivors; i++) {
            int id = truncation.ids()[i];
            probs[id] = weights[id] / total;
        }
    }

    /** A greedy draft is certain, so the rule for proposals comes down to equality. */
    private int drawGreedily(float[] logits, int offset, float max, RowSampling row) {
        int tokenId = kernels.firstAtLeast(logits, offset, vocabSize, max);
        if (row.distribution() != null) {
            Arrays.fill(row.distribution(), 0, vocabSize, 0);
            row.distribution()[tokenId] = 1;
        }
        return tokenId;
    }

    private int drawRandomly(float[] logits, int offset, float max, RowSampling row) {
        SamplingParams params = row.params();
        float scale = scale(params);
        kernels.expDifferences(logits, offset, vocabSize, max, scale, weights);
        boolean wantsProcessed = params.numLogprobs() >= 0 && mode == LogprobsMode.PROCESSED_LOGPROBS;
        if (truncation.isOff(params)) {
            int tokenId = row.proposal() == null ? gumbel.fromAll(weights, row) : verify(row, -1);
            if (row.distribution() != null) {
                normalise(-1, row.distribution());
            }
            if (wantsProcessed) {
                double logTotal = StrictMath.log(Weights.sum(weights, vocabSize));
                int numTop = truncation.mostLikely(logits, offset, params.numLogprobs());
                lastLogprobs = report(logits[offset + tokenId], tokenId, max, scale, logTotal, numTop);
            }
            return tokenId;
        }
        int numSurvivors = truncation.apply(logits, offset, max, scale, weights, params);
        int tokenId = row.proposal() == null
                ? gumbel.from(truncation.ids(), numSurvivors, weights, row)
                : verify(row, numSurvivors);
        if (row.distribution() != null) {
            normalise(numSurvivors, row.distribution());
        }
        if (wantsProcessed) {
            double logTotal = StrictMath.log(Weights.sum(weights, truncation.ids(), numSurvivors));
            int numTop = truncation.mostLikelySurvivors(logits, offset, numSurvivors, params.numLogprobs());
            lastLogprobs = report(logits[offset + tokenId], tokenId, max, scale, logTotal, numTop);
        }
        return tokenId;
    }

    /** Writes the distribution of the weights, all of them (numSurvivors < 0) or the truncation's survivors'. */
    private void normalise(int numSurvivors, float[] probabilities) {
        if (numSurvivors < 0) {
            double total = Weights.sum(weights, vocabSize);
            for (int id = 0; id < vocabSize; id++) {
                probabilities[id] = (float) (weights[id] / total);
            }
            return;
        }
        double total = Weights.sum(weights, truncation.ids(), numSurvivors);
        Arrays.fill(probabilities, 0, vocabSize, 0);
        for (int i = 0; i < numSurvivors; i++) {
            int id = truncation.ids()[i];
            probabilities[id] = (float) (weights[id] / total);
        }
    }

    /** Accepts the row's proposal, or draws from what the target's distribution has more than the draft's. */
    private int verify(RowSampling row, int numSurvivors) {
        if (target == null) {
            target = new float[vocabSize];
            residual = new float[vocabSize];
        }
        normalise(numSurvivors, target);
        Proposal proposal = row.proposal();
        int proposed = proposal.tokenId();
        if (gumbel.acceptance(row) * proposal.probability(proposed) < target[proposed]) {
            return proposed;
        }
        boolean hasResidual = false;
        for (int id = 0; id < vocabSize; id++) {
            float more = (float) Math.max(0, target[id] - proposal.probability(id));
            residual[id] = more;
            hasResidual |= more > 0;
        }
        // Without a residual the distributions differ by rounding alone.
        return gumbel.fromResidual(hasResidual ? residual : target, row);
    }

    /** The numTop alternatives are the truncation's last found keys. */
    private TokenLogprobs report(float logit, int tokenId, float max, float scale, double logTotal, int numTop) {
        int[] topIds = new int[numTop];
        float[] topLogprobs = new float[numTop];
        for (int i = 0; i < numTop; i++) {
            topIds[i] = TokenKeys.tokenId(truncation.key(i));
            topLogprobs[i] = logprob(TokenKeys.logit(truncation.key(i)), max, scale, logTotal);
        }
        return new TokenLogprobs(tokenId, logprob(logit, max, scale, logTotal), topIds, topLogprobs);
    }

    private static float logprob(float logit, float max, float scale, double logTotal) {
        return (float) (((double) logit - max) * scale - logTotal);
    }

    private void keepRaw(float[] logits, int offset) {
        if (rawLogits == null) {
            rawLogits = new float[vocabSize];
        }
        System.arraycopy(logits, offset, rawLogits, 0, vocabSize);
    }

    private float finiteMax(float[] logits, int offset) {
        float max = kernels.max(logits, offset, vocabSize);
        if (!Float.isFinite(max)) {
            throw new NonFiniteLogitsException(max);
        }
        return max;
    }

    private static float scale(SamplingParams params) {
        return Math.min(1 / params.temperature(), MAX_SCALE);
    }
}
