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

    /** No token: truncate to find it. */
    private static final int UNCERTAIN = -1;

    private final int vocabSize;
    private final LogprobsMode mode;
    private final LogitKernels kernels;
    private final LogitAdjustments adjustments;
    private final Truncation truncation;
    private final GumbelDraw gumbel;
    private final float[] weights;
    /** At which scale the weights of all tokens are there; NaN where they are not. */
    private float weightsScale;

    /** The sum of these weights. */
    private double mass;

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
        return draw(logits, offset, kernels.max(logits, offset, vocabSize), row);
    }

    /**
     * Draws one token of a row whose greatest logit is known.
     *
     * @param max the greatest logit, from {@link #finiteMax}
     */
    public int draw(float[] logits, int offset, float max, RowSampling row) {
        SamplingParams params = row.params();
        lastLogprobs = null;
        weightsScale = Float.NaN;
        boolean wantsRaw = params.numLogprobs() >= 0 && mode == LogprobsMode.RAW_LOGPROBS;
        boolean needsAdjustments = LogitAdjustments.areNeeded(row);
        if (needsAdjustments) {
            if (wantsRaw) {
                keepRaw(logits, offset);
            }
            adjustments.apply(logits, offset, row);
        }
        float adjustedMax = checked(needsAdjustments ? kernels.max(logits, offset, vocabSize) : max);
        int tokenId = params.isGreedy()
                ? drawGreedily(logits, offset, adjustedMax, row)
                : drawRandomly(logits, offset, adjustedMax, row);
        if (wantsRaw && needsAdjustments) {
            lastLogprobs = score(rawLogits, 0, tokenId, params.numLogprobs());
        } else if (wantsRaw) {
            lastLogprobs = score(logits, offset, max, weightsScale == 1, tokenId, params.numLogprobs());
        } else if (params.numLogprobs() >= 0 && params.isGreedy()) {
            lastLogprobs = score(logits, offset, adjustedMax, false, tokenId, params.numLogprobs());
        }
        return tokenId;
    }

    /** The greatest logit of a row, or NaN when any of them is NaN or infinite. */
    public float finiteMax(float[] logits, int offset) {
        return kernels.finiteMax(logits, offset, vocabSize);
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
        float max = checked(kernels.max(logits, offset, vocabSize));
        return score(logits, offset, max, false, targetTokenId, numLogprobs);
    }

    /** Scores where the greatest logit, and perhaps the weights at temperature 1, are there already. */
    private TokenLogprobs score(
            float[] logits, int offset, float max, boolean hasWeights, int targetTokenId, int numLogprobs) {
        if (!hasWeights) {
            weigh(logits, offset, max, 1);
        }
        double logTotal = StrictMath.log(mass);
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
        float max = checked(kernels.max(logits, offset, vocabSize));
        Arrays.fill(probs, 0, vocabSize, 0);
        if (row.params().isGreedy()) {
            probs[kernels.firstAtLeast(logits, offset, vocabSize, max)] = 1;
            return;
        }
        float scale = scale(row.params());
        weigh(logits, offset, max, scale);
        if (truncation.isOff(row.params())) {
            for (int id = 0; id < vocabSize; id++) {
                probs[id] = weights[id] / mass;
            }
            return;
        }
        int numSurvivors =
                truncation.apply(logits, offset, max, scale, weights, mass, Truncation.NOT_COLLECTED, row.params());
        double total = truncation.mass(weights, numSurvivors);
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
        boolean wantsProcessed = params.numLogprobs() >= 0 && mode == LogprobsMode.PROCESSED_LOGPROBS;
        if (truncation.isOff(params)) {
            return drawFromAll(logits, offset, max, scale, wantsProcessed, row);
        }
        if (!truncation.weighsItself(params)) {
            weigh(logits, offset, max, scale);
        }
        boolean needsSurvivors =
                wantsProcessed || row.proposal() != null || row.distribution() != null || truncation.hasTopK(params);
        int numCollected = Truncation.NOT_COLLECTED;
        if (!needsSurvivors) {
            float minWeight = truncation.minWeight(mass, params);
            numCollected = truncation.collectFew(weights, minWeight);
            int tokenId = numCollected >= 0 ? UNCERTAIN : drawAndCheck(logits, offset, minWeight, row);
            if (tokenId != UNCERTAIN) {
                return tokenId;
            }
        }
        return drawFromSurvivors(logits, offset, max, scale, numCollected, wantsProcessed, row);
    }

    private void weigh(float[] logits, int offset, float max, float scale) {
        mass = kernels.expDifferences(logits, offset, vocabSize, max, scale, weights, 0);
        weightsScale = scale;
    }

    private int drawFromAll(
            float[] logits, int offset, float max, float scale, boolean wantsProcessed, RowSampling row) {
        weigh(logits, offset, max, scale);
        int tokenId = row.proposal() == null ? gumbel.fromAll(weights, row) : verify(row, -1);
        if (row.distribution() != null) {
            normalise(-1, row.distribution());
        }
        if (wantsProcessed) {
            double logTotal = StrictMath.log(mass);
            int numTop = truncation.mostLikely(logits, offset, row.params().numLogprobs());
            lastLogprobs = report(logits[offset + tokenId], tokenId, max, scale, logTotal, numTop);
        }
        return tokenId;
    }

    /**
     * Draws by min_p and top_p without truncating. The winner over a set that holds all survivors is the winner over the
     * survivors if it is one of them. If not, no token that ranks below it survives either, and the next draw is from those
     * above. Returns {@link #UNCERTAIN} where that cannot be told for rounding.
     */
    private int drawAndCheck(float[] logits, int offset, float minWeight, RowSampling row) {
        SamplingParams params = row.params();
        int tokenId = gumbel.fromHeavy(weights, minWeight, row);
        while (params.topP() < 1) {
            Truncation.Membership membership = truncation.membership(logits, offset, weights, mass, params, tokenId);
            if (membership != Truncation.Membership.CUT) {
                return membership == Truncation.Membership.KEPT ? tokenId : UNCERTAIN;
            }
            tokenId = gumbel.fromHeavyAbove(logits, offset, tokenId, weights, minWeight, row);
        }
        return tokenId;
    }

    private int drawFromSurvivors(
            float[] logits,
            int offset,
            float max,
            float scale,
            int numCollected,
            boolean wantsProcessed,
            RowSampling row) {
        SamplingParams params = row.params();
        int numSurvivors = truncation.apply(logits, offset, max, scale, weights, mass, numCollected, params);
        int tokenId = row.proposal() == null
                ? gumbel.from(truncation.ids(), numSurvivors, weights, row)
                : verify(row, numSurvivors);
        if (row.distribution() != null) {
            normalise(numSurvivors, row.distribution());
        }
        if (wantsProcessed) {
            double logTotal = StrictMath.log(truncation.mass(weights, numSurvivors));
            int numTop = truncation.mostLikelySurvivors(logits, offset, numSurvivors, params.numLogprobs());
            lastLogprobs = report(logits[offset + tokenId], tokenId, max, scale, logTotal, numTop);
        }
        return tokenId;
    }

    /** Writes the distribution of the weights, all of them (numSurvivors < 0) or the truncation's survivors'. */
    private void normalise(int numSurvivors, float[] probabilities) {
        if (numSurvivors < 0) {
            for (int id = 0; id < vocabSize; id++) {
                probabilities[id] = (float) (weights[id] / mass);
            }
            return;
        }
        double total = truncation.mass(weights, numSurvivors);
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

    private static float checked(float max) {
        if (!Float.isFinite(max)) {
            throw new NonFiniteLogitsException(max);
        }
        return max;
    }

    private static float scale(SamplingParams params) {
        return Math.min(1 / params.temperature(), MAX_SCALE);
    }
}
