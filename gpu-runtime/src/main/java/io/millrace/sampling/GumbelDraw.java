package io.millrace.sampling;

import io.millrace.kernels.LogitKernels;
import java.util.Arrays;

/**
 * Draws by Gumbel-max: the token with the greatest log weight + Gumbel noise, which is the one with the least exponential
 * noise / weight. Every vocabulary id has its own noise, a function of (seed, sample index, output position, id) alone:
 * Philox4x32-10 (Salmon et al., SC 2011) with key = seed and counter = (sample index, output position, id / 4, stream),
 * of which the id takes word id mod 4. So the draw knows nothing of batch, row, truncation order or thread. One per
 * compute thread.
 */
final class GumbelDraw {
    /** The streams of a plain draw; the next one up extends numbers (see noise). */
    private static final int DRAW_STREAM = 0;
    /** Whether a proposal is accepted: the first word of block 0. */
    private static final int ACCEPTANCE_STREAM = 2;
    /** Draws from a residual: independent of the noise that a draft proposed with. */
    private static final int RESIDUAL_STREAM = 3;

    private static final long MAX_WORD = 0xFFFFFFFFL;
    private static final long EXTENDED_BELOW = 1 << 12;
    private static final double WORD_SCALE = 0x1p-32;
    private static final double BOUND_MARGIN = 1 + 0x1p-20;
    private static final int GROUP_BLOCKS = LogitKernels.WINNER_GROUP / 4;
    /** Above this share of the vocabulary a vectorised pass over all of it wins. */
    private static final int DENSE_FRACTION = 32;

    private final LogitKernels kernels;
    private final int vocabSize;
    private final long[] planes = new long[LogitKernels.WINNER_GROUP];
    private final long[] block = new long[4];
    private final long[] extension = new long[4];
    private final float[] survivorWeights;

    private long seed;
    private int sampleIndex;
    private int outputPosition;
    private int stream;
    private float minWeight;
    /** Where only the tokens above one are drawn from, else null. */
    private float[] logits;

    private int logitsOffset;
    private long cutKey;
    private int bestId;
    private double best;

    GumbelDraw(LogitKernels kernels, int vocabSize) {
        this.kernels = kernels;
        this.vocabSize = vocabSize;
        this.survivorWeights = new float[vocabSize];
    }

    /** Draws from the whole vocabulary; weights by id, at least one above 0. */
    int fromAll(float[] weights, RowSampling row) {
        return fromAll(weights, row, DRAW_STREAM);
    }

    /** Draws a replacement for a refused proposal; weights by id, at least one above 0. */
    int fromResidual(float[] weights, RowSampling row) {
        return fromAll(weights, row, RESIDUAL_STREAM);
    }

    /** A number uniform in [0, 1) that decides whether the row's proposal is accepted. */
    double acceptance(RowSampling row) {
        kernels.philoxBlocks(
                row.params().seed(), row.sampleIndex(), row.outputPosition(), 0, ACCEPTANCE_STREAM, 1, block, 1);
        return block[0] * WORD_SCALE;
    }

    private int fromAll(float[] weights, RowSampling row, int ofStream) {
        start(row, ofStream);
        search(weights);
        return bestId;
    }

    /** Draws from the tokens that weigh at least atLeast, of which there is one. */
    int fromHeavy(float[] weights, float atLeast, RowSampling row) {
        start(row, DRAW_STREAM);
        minWeight = atLeast;
        search(weights);
        return bestId;
    }

    /** Draws from those that rank above a given token as well, which is not the first of all. */
    int fromHeavyAbove(float[] ofLogits, int offset, int tokenId, float[] weights, float atLeast, RowSampling row) {
        start(row, DRAW_STREAM);
        minWeight = atLeast;
        logits = ofLogits;
        logitsOffset = offset;
        cutKey = TokenKeys.key(ofLogits[offset + tokenId], tokenId);
        search(weights);
        return bestId;
    }

    /** Offers whole groups of ids in which one may win; the kernel passes over the others. */
    private void search(float[] weights) {
        int id = 0;
        while (true) {
            id = kernels.firstPossibleWinner(
                    seed, sampleIndex, outputPosition, stream, weights, id, vocabSize, minWeight, bound());
            if (id >= vocabSize) {
                return;
            }
            int end = Math.min(id + LogitKernels.WINNER_GROUP, vocabSize);
            int firstBlock = id >> 2;
            kernels.philoxBlocks(
                    seed, sampleIndex, outputPosition, firstBlock, stream, (end - id + 3) >> 2, planes, GROUP_BLOCKS);
            for (; id < end; id++) {
                offer(id, weights[id], planes[(id & 3) * GROUP_BLOCKS + (id >> 2) - firstBlock]);
            }
        }
    }

    /** In halves of 2^-32, and a little more than exact: the kernel works in floats. */
    private float bound() {
        return (float) (best * BOUND_MARGIN) * 0x1p31f;
    }

    /** Draws from ids[0 … numIds), in any order. */
    int from(int[] ids, int numIds, float[] weights, RowSampling row) {
        if (numIds > vocabSize / DENSE_FRACTION) {
            return fromDense(ids, numIds, weights, row);
        }
        start(row, DRAW_STREAM);
        int blockIndex = -1;
        for (int i = 0; i < numIds; i++) {
            int id = ids[i];
            if (id >> 2 != blockIndex) {
                blockIndex = id >> 2;
                kernels.philoxBlocks(seed, sampleIndex, outputPosition, blockIndex, stream, 1, block, 1);
            }
            offer(id, weights[id], block[id & 3]);
        }
        return bestId;
    }

    /** The same draw by way of the whole vocabulary's noise, which is computed faster than that of many single ids. */
    private int fromDense(int[] ids, int numIds, float[] weights, RowSampling row) {
        Arrays.fill(survivorWeights, 0);
        for (int i = 0; i < numIds; i++) {
            survivorWeights[ids[i]] = weights[ids[i]];
        }
        return fromAll(survivorWeights, row);
    }

    private void start(RowSampling row, int ofStream) {
        stream = ofStream;
        seed = row.params().seed();
        sampleIndex = row.sampleIndex();
        outputPosition = row.outputPosition();
        bestId = -1;
        minWeight = Float.MIN_VALUE; // whole groups that weigh nothing are passed over
        logits = null;
        best = Double.POSITIVE_INFINITY;
    }

    /**
     * The noise is -log(1 - y) with y uniform in (0, 1), which is at least y, and y is at least the word over 2^32: that
     * settles almost every token without a logarithm. A weight of 0 never passes (infinity × 0 is no number).
     */
    private void offer(int id, float weight, long word) {
        long complement = MAX_WORD - word;
        if (complement * WORD_SCALE < best * weight) {
            double noise = noise(id, complement) / weight;
            if (isOffered(id, weight) && (noise < best || (noise == best && id < bestId))) {
                best = noise;
                bestId = id;
            }
        }
    }

    private boolean isOffered(int id, float weight) {
        return weight >= minWeight && (logits == null || TokenKeys.key(logits[logitsOffset + id], id) > cutKey);
    }

    /** Numbers whose exponential noise is tiny are extended, so that tokens below 2^-32 keep their probability. */
    private double noise(int id, long complement) {
        double low = 0.5;
        if (complement < EXTENDED_BELOW) {
            kernels.philoxBlocks(seed, sampleIndex, outputPosition, id >> 2, stream + 1, 1, extension, 1);
            low = (extension[id & 3] + 0.5) * WORD_SCALE;
        }
        return -StrictMath.log1p(-(complement + low) * WORD_SCALE);
    }
}
