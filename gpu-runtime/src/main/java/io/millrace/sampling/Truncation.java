package io.millrace.sampling;

import io.millrace.kernels.LogitKernels;
import java.util.Arrays;

/**
 * Selects the tokens that min_p, top_k and top_p leave, in that order, each a run of most likely tokens (ties: lower id),
 * without sorting the vocabulary. One per compute thread; owns scratch sized to the vocabulary.
 */
final class Truncation {
    private static final int SCAN_CHUNK = 1024;
    /** Keys beyond the k wanted at which the k greatest are selected: early, so that the threshold soon leaves out most. */
    private static final int MIN_EXCESS = 128;

    private static final int NUM_BUCKETS = 512;
    private static final float BUCKETS_PER_UNIT = 24;
    /** Of the mass: well above the rounding of its sums, which is at most 4e-6 in addMasses and far less in apply. */
    private static final double UNCERTAIN_SHARE = 0x1p-14;

    /** Below this share of the vocabulary tokens are few. */
    private static final int FEW_FRACTION = 12;

    static final int NOT_COLLECTED = -1;

    private final LogitKernels kernels;
    private final int vocabSize;
    private final int[] ids;
    private final long[] keys;
    private final int[] scanned = new int[SCAN_CHUNK + 1];
    private final float[] gathered = new float[SCAN_CHUNK];
    private final double[] masses = new double[2];
    private final double[] bucketMass = new double[NUM_BUCKETS];

    Truncation(LogitKernels kernels, int vocabSize) {
        this.kernels = kernels;
        this.vocabSize = vocabSize;
        this.ids = new int[vocabSize + 1];
        this.keys = new long[vocabSize + 2 * SCAN_CHUNK];
    }

    /** Whether the settings leave every token. */
    boolean isOff(SamplingParams params) {
        return params.topP() >= 1 && params.minP() <= 0 && !hasTopK(params);
    }

    boolean hasTopK(SamplingParams params) {
        return params.topK() > 0 && params.topK() < vocabSize;
    }

    /** Whether {@link #apply} computes the weights of those few tokens that need one. */
    boolean weighsItself(SamplingParams params) {
        return hasTopK(params) && params.minP() <= 0;
    }

    /** What every survivor of min_p, or of top_p where nothing comes before it, weighs at least. */
    float minWeight(double mass, SamplingParams params) {
        if (params.minP() > 0 || params.topP() >= 1) {
            return params.minP();
        }
        // All tokens below this threshold together weigh less than the tail that is cut off.
        return (float) (0.999 * (1 - (double) params.topP()) * mass / vocabSize);
    }

    /** What is known of a token without truncating. */
    enum Membership {
        KEPT,
        CUT,
        /** So close to the border that the sums of {@link #apply} have to decide. */
        UNCERTAIN
    }

    /**
     * Whether min_p and top_p leave a token that weighs at least min_p: they do when the tokens that rank above it have
     * less than top_p of the mass. For settings without top_k.
     *
     * @param mass the sum of all weights. Without min_p, the token is left as soon as those seen that do not rank above it
     *     have more than top_p cuts off
     */
    Membership membership(
            float[] logits, int offset, float[] weights, double mass, SamplingParams params, int tokenId) {
        masses[0] = 0;
        masses[1] = 0;
        float logit = logits[offset + tokenId];
        double enough =
                params.minP() > 0 ? Double.POSITIVE_INFINITY : (1 - (double) params.topP() + UNCERTAIN_SHARE) * mass;
        // Equal logits rank above where their id is lower.
        if (addMasses(logits, offset, weights, 0, tokenId, params.minP(), logit, enough)
                || addMasses(logits, offset, weights, tokenId, vocabSize, params.minP(), Math.nextUp(logit), enough)) {
            return Membership.KEPT;
        }
        double missing = params.topP() * masses[0] - masses[1];
        double uncertainty = UNCERTAIN_SHARE * masses[0];
        if (missing > uncertainty) {
            return Membership.KEPT;
        }
        return missing < -uncertainty ? Membership.CUT : Membership.UNCERTAIN;
    }

    /** Stops once the mass that is not above exceeds what is enough, and says whether it did. */
    private boolean addMasses(
            float[] logits,
            int offset,
            float[] weights,
            int from,
            int to,
            float minWeight,
            float minLogit,
            double enough) {
        for (int start = from; start < to; start += LogitKernels.MAX_MASS_LENGTH) {
            int length = Math.min(LogitKernels.MAX_MASS_LENGTH, to - start);
            kernels.addMasses(logits, offset + start, weights, start, length, minWeight, minLogit, masses);
            if (masses[0] - masses[1] > enough) {
                return true;
            }
        }
        return false;
    }

    /** The mass of the last {@link #apply}'s survivors. */
    double mass(float[] weights, int numSurvivors) {
        double sum = 0;
        for (int i = 0; i < numSurvivors; i++) {
            sum += weights[ids[i]];
        }
        return sum;
    }

    /** The survivors of the last {@link #apply}, in no useful order. Not to be changed. */
    int[] ids() {
        return ids;
    }

    /**
     * Collects the tokens that weigh at least minWeight, if they are few: then truncating costs less than drawing first. Where
     * most of the first are such tokens it looks no further; both ways give the same draw.
     *
     * @return how many they are, for {@link #apply}; {@link #NOT_COLLECTED} when they are many
     */
    int collectFew(float[] weights, float minWeight) {
        int limit = vocabSize / FEW_FRACTION;
        int numIds = 0;
        for (int start = 0; start < vocabSize && numIds <= limit; start += SCAN_CHUNK) {
            int length = Math.min(SCAN_CHUNK, vocabSize - start);
            numIds += kernels.collectAtLeast(weights, start, length, minWeight, start, ids, numIds);
            if (numIds > (start + length) / 2) {
                return NOT_COLLECTED;
            }
        }
        return numIds <= limit ? numIds : NOT_COLLECTED;
    }

    /**
     * Selects.
     *
     * @param weights by token id: exp((logit - max) × scale); where {@link #weighsItself}, receives those of the survivors
     * @param mass the sum of all weights; not read where {@link #weighsItself}
     * @param numCollected what {@link #collectFew} gave, or {@link #NOT_COLLECTED}
     * @return number of survivors, at least 1
     */
    int apply(
            float[] logits,
            int offset,
            float max,
            float scale,
            float[] weights,
            double mass,
            int numCollected,
            SamplingParams params) {
        int numIds = numCollected;
        boolean hasMinP = params.minP() > 0;
        if (numIds < 0 && (hasMinP || !hasTopK(params))) {
            // The most likely token weighs exactly 1.
            numIds = kernels.collectAtLeast(weights, 0, vocabSize, minWeight(mass, params), 0, ids, 0);
        }
        if (hasTopK(params)) {
            numIds = topK(logits, offset, numIds, params.topK());
            if (weighsItself(params)) {
                weigh(logits, offset, max, scale, weights, numIds);
            }
        }
        if (params.topP() < 1) {
            double offered = hasMinP || hasTopK(params) ? mass(weights, numIds) : mass;
            numIds = topP(logits, offset, max, scale, weights, numIds, params.topP() * offered);
        }
        return numIds;
    }

    private void weigh(float[] logits, int offset, float max, float scale, float[] weights, int numIds) {
        for (int start = 0; start < numIds; start += SCAN_CHUNK) {
            int length = Math.min(SCAN_CHUNK, numIds - start);
            for (int i = 0; i < length; i++) {
                gathered[i] = logits[offset + ids[start + i]];
            }
            kernels.expDifferences(gathered, 0, length, max, scale, gathered, 0);
            for (int i = 0; i < length; i++) {
                weights[ids[start + i]] = gathered[i];
            }
        }
    }

    private int topK(float[] logits, int offset, int numIds, int k) {
        int numKept;
        if (numIds < 0) {
            numKept = greatest(logits, offset, k);
        } else {
            for (int i = 0; i < numIds; i++) {
                keys[i] = TokenKeys.key(logits[offset + ids[i]], ids[i]);
            }
            numKept = Math.min(k, numIds);
            TokenKeys.selectGreatest(keys, numIds, numKept);
        }
        for (int i = 0; i < numKept; i++) {
            ids[i] = TokenKeys.tokenId(keys[i]);
        }
        return numKept;
    }

    /** Puts the k most likely tokens' keys in front of {@link #keys}, unsorted but the least last; gives their number. */
    private int greatest(float[] logits, int offset, int k) {
        int numKeys = 0;
        float threshold = -Float.MAX_VALUE; // leaves suppressed tokens out
        for (int start = 0; start < vocabSize; start += SCAN_CHUNK) {
            int length = Math.min(SCAN_CHUNK, vocabSize - start);
            int numFound = kernels.collectAtLeast(logits, offset + start, length, threshold, start, scanned, 0);
            for (int i = 0; i < numFound; i++) {
                int id = scanned[i];
                keys[numKeys++] = TokenKeys.key(logits[offset + id], id);
            }
            if (numKeys >= k + Math.max(k, MIN_EXCESS)) {
                TokenKeys.selectGreatest(keys, numKeys, k);
                numKeys = k;
                threshold = TokenKeys.logit(keys[k - 1]);
            }
        }
        int numKept = Math.min(k, numKeys);
        TokenKeys.selectGreatest(keys, numKeys, numKept);
        return numKept;
    }

    /**
     * Sums weights by buckets of exponents, finds the bucket in which the target is reached, and selects within that one
     * alone.
     */
    private int topP(
            float[] logits, int offset, float max, float scale, float[] weights, int numIds, double targetMass) {
        Arrays.fill(bucketMass, 0);
        for (int i = 0; i < numIds; i++) {
            int id = ids[i];
            bucketMass[bucket(logits[offset + id], max, scale)] += weights[id];
        }
        int crossing = 0;
        double massAbove = 0;
        while (crossing < NUM_BUCKETS && massAbove + bucketMass[crossing] < targetMass) {
            massAbove += bucketMass[crossing];
            crossing++;
        }
        int numKept = 0;
        int numKeys = 0;
        for (int i = 0; i < numIds; i++) {
            int id = ids[i];
            float logit = logits[offset + id];
            int bucket = bucket(logit, max, scale);
            ids[numKept] = id;
            numKept -= (bucket - crossing) >> 31; // plus 1 if less, without a branch that nothing could predict
            if (bucket == crossing) {
                keys[numKeys++] = TokenKeys.key(logit, id);
            }
        }
        int numSelected = TokenKeys.selectMass(keys, numKeys, weights, targetMass - massAbove);
        for (int i = 0; i < numSelected; i++) {
            ids[numKept++] = TokenKeys.tokenId(keys[i]);
        }
        return numKept;
    }

    /** Grows as the logit falls; equal logits share a bucket. */
    private static int bucket(float logit, float max, float scale) {
        return Math.min(NUM_BUCKETS - 1, (int) ((max - logit) * scale * BUCKETS_PER_UNIT));
    }

    /** The numAsked most likely of all tokens as keys, best first, valid until the next call; fewer when suppressed. */
    int mostLikely(float[] logits, int offset, int numAsked) {
        if (numAsked == 0) {
            return 0;
        }
        int numKept = greatest(logits, offset, Math.min(numAsked, vocabSize));
        TokenKeys.sortDescending(keys, 0, numKept);
        return numKept;
    }

    /** The numAsked most likely of the last {@link #apply}'s survivors as keys, best first. */
    int mostLikelySurvivors(float[] logits, int offset, int numSurvivors, int numAsked) {
        if (numAsked == 0) {
            return 0;
        }
        for (int i = 0; i < numSurvivors; i++) {
            keys[i] = TokenKeys.key(logits[offset + ids[i]], ids[i]);
        }
        int numKept = Math.min(numSurvivors, numAsked);
        TokenKeys.selectGreatest(keys, numSurvivors, numKept);
        TokenKeys.sortDescending(keys, 0, numKept);
        return numKept;
    }

    /** Keys found by mostLikely or mostLikelySurvivors. */
    long key(int index) {
        return keys[index];
    }
}
