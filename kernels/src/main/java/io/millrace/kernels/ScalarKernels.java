package io.millrace.kernels;

import java.util.Arrays;

/** The plain twin: says what each kernel computes, and runs where the Vector API is absent. */
public final class ScalarKernels implements Kernels {

    @Override
    public String name() {
        return "scalar";
    }

    @Override
    public void rmsNorm(float[] x, int xOffset, float[] weight, float eps, float[] out, int outOffset, int count) {
        float factor = normFactor(x, xOffset, eps, count);
        for (int i = 0; i < count; i++) {
            out[outOffset + i] = x[xOffset + i] * factor * weight[i];
        }
    }

    @Override
    public void rmsNormToBfloat16(
            float[] x, int xOffset, float[] weight, float eps, short[] out, int outOffset, int count) {
        float factor = normFactor(x, xOffset, eps, count);
        for (int i = 0; i < count; i++) {
            out[outOffset + i] = Bfloat16.round(x[xOffset + i] * factor * weight[i]);
        }
    }

    private static float normFactor(float[] x, int offset, float eps, int count) {
        float[] lanes = SCRATCH.get();
        Arrays.fill(lanes, 0f);
        for (int i = 0; i < count; i++) {
            lanes[i % LANES] = Math.fma(x[offset + i], x[offset + i], lanes[i % LANES]);
        }
        return normFactor(lanes, eps, count);
    }

    /** From the lanes of a sum of squares. */
    static float normFactor(float[] lanes, float eps, int count) {
        return (float) (1.0 / Math.sqrt((double) tree(lanes, 0) / count + eps));
    }

    private static final ThreadLocal<float[]> SCRATCH = ThreadLocal.withInitial(() -> new float[LANES]);

    @Override
    public void rotate(float[] x, int offset, float[] cos, float[] sin, int tableOffset, int half) {
        for (int d = 0; d < half; d++) {
            rotatePair(x, offset + d, offset + d + half, cos[tableOffset + d], sin[tableOffset + d]);
        }
    }

    static void rotatePair(float[] x, int first, int second, float cos, float sin) {
        float a = x[first];
        float b = x[second];
        x[first] = Math.fma(a, cos, -(b * sin));
        x[second] = Math.fma(b, cos, a * sin);
    }

    @Override
    public void scale(float[] x, int offset, float factor, int count) {
        for (int i = 0; i < count; i++) {
            x[offset + i] *= factor;
        }
    }

    @Override
    public void toBfloat16(float[] source, int sourceOffset, short[] target, int targetOffset, int count) {
        for (int i = 0; i < count; i++) {
            target[targetOffset + i] = Bfloat16.round(source[sourceOffset + i]);
        }
    }

    @Override
    public void scaleToBfloat16(float[] x, int offset, float factor, float[] out, int outOffset, int count) {
        for (int i = 0; i < count; i++) {
            out[outOffset + i] = Bfloat16.widen(Bfloat16.roundFactor(x[offset + i] * factor));
        }
    }

    @Override
    public void pairBfloat16(
            float[] low, int lowOffset, float[] high, int highOffset, int[] pairs, int offset, int count) {
        for (int i = 0; i < count; i++) {
            pairs[offset + i] = Bfloat16.pair(low[lowOffset + i], high[highOffset + i]);
        }
    }

    @Override
    public void putBfloat16(float[] source, int sourceOffset, int[] pairs, int offset, int count, boolean isHigh) {
        for (int i = 0; i < count; i++) {
            pairs[offset + i] = Bfloat16.put(source[sourceOffset + i], pairs[offset + i], isHigh);
        }
    }

    @Override
    public boolean isFinite(float[] x, int offset, int count) {
        float zero = 0;
        for (int i = 0; i < count; i++) {
            zero = Math.fma(x[offset + i], 0f, zero);
        }
        return zero == 0;
    }

    @Override
    public void scores(
            float[] queries,
            int firstRow,
            int numRows,
            int headDim,
            float[] keys,
            int[] keyOffsets,
            int numBlocks,
            float[] scores) {
        for (int r = firstRow; r < firstRow + numRows; r++) {
            for (int p = 0; p < numBlocks * BLOCK_SIZE; p++) {
                int key = keyOffsets[p / BLOCK_SIZE] + p % BLOCK_SIZE;
                float sum = 0;
                for (int d = 0; d < headDim; d++) {
                    sum = Math.fma(queries[r * headDim + d], keys[key + d * BLOCK_SIZE], sum);
                }
                scores[r * TILE_SIZE + p] = sum;
            }
        }
    }

    @Override
    public void scores(
            float[] queries,
            int firstRow,
            int numRows,
            int headDim,
            int[] keys,
            int[] keyOffsets,
            int numBlocks,
            float[] scores) {
        for (int r = firstRow; r < firstRow + numRows; r++) {
            for (int p = 0; p < numBlocks * BLOCK_SIZE; p++) {
                int key = keyOffsets[p / BLOCK_SIZE] + p % BLOCK_SIZE;
                float sum = 0;
                for (int d = 0; d < headDim; d += 2) {
                    int pair = keys[key + d / 2 * BLOCK_SIZE];
                    sum = Math.fma(queries[r * headDim + d + 1], Bfloat16.high(pair), sum);
                    sum = Math.fma(queries[r * headDim + d], Bfloat16.low(pair), sum);
                }
                scores[r * TILE_SIZE + p] = sum;
            }
        }
    }

    @Override
    public void foldScores(
            float[] scores,
            int scoresOffset,
            int scoresStride,
            int firstRow,
            int numRows,
            int[] counts,
            float[] maxima,
            float[] sums,
            float[] factors,
            boolean toBfloat16) {
        for (int i = 0; i < numRows; i++) {
            int r = firstRow + i;
            foldRow(scores, scoresOffset + i * scoresStride, r, counts[r], maxima, sums, factors, toBfloat16);
        }
    }

    @Override
    public void foldTiles(
            float[] scores,
            int numTiles,
            int firstRow,
            int numRows,
            float[] maxima,
            float[] sums,
            float[][] factors,
            boolean toBfloat16) {
        for (int t = 0; t < numTiles; t++) {
            for (int i = 0; i < numRows; i++) {
                int at = (i * numTiles + t) * TILE_SIZE;
                foldRow(scores, at, firstRow + i, TILE_SIZE, maxima, sums, factors[t], toBfloat16);
            }
        }
    }

    private static void foldRow(
            float[] scores,
            int at,
            int row,
            int count,
            float[] maxima,
            float[] sums,
            float[] factors,
            boolean toBfloat16) {
        factors[row] = raiseMaximum(scores, at, row, count, maxima);
        for (int p = at; p < at + count; p++) {
            scores[p] = toBfloat16 ? Exp2.toBfloat16(scores[p], maxima[row]) : Exp2.ofScore(scores[p], maxima[row]);
        }
        Arrays.fill(scores, at + count, at + TILE_SIZE, 0f);
        addToLanes(scores, at, row, factors[row], sums);
    }

    @Override
    public void narrow(float[] source, int sourceOffset, short[] target, int targetOffset, int count) {
        for (int i = 0; i < count; i++) {
            target[targetOffset + i] = (short) (Float.floatToRawIntBits(source[sourceOffset + i]) >>> 16);
        }
    }

    /** What the accumulations under the old maximum shrink by. */
    private static float raiseMaximum(float[] scores, int at, int row, int count, float[] maxima) {
        float oldMaximum = maxima[row];
        float maximum = Float.NEGATIVE_INFINITY;
        for (int p = at; p < at + count; p++) {
            maximum = scores[p] > maximum ? scores[p] : maximum;
        }
        if (!(maximum > oldMaximum + SLACK)) {
            return 1f;
        }
        maxima[row] = maximum;
        return Exp2.of(oldMaximum - maximum);
    }

    private static void addToLanes(float[] weights, int at, int row, float factor, float[] sums) {
        for (int lane = 0; lane < LANES; lane++) {
            int p = at + lane;
            float sum = (weights[p] + weights[p + 16]) + (weights[p + 32] + weights[p + 48]);
            sums[row * LANES + lane] = Math.fma(sums[row * LANES + lane], factor, sum);
        }
    }

    @Override
    public float sumLanes(float[] sums, int row) {
        return tree(sums, row * LANES);
    }

    static float tree(float[] lanes, int at) {
        float a = (lanes[at] + lanes[at + 8]) + (lanes[at + 4] + lanes[at + 12]);
        float b = (lanes[at + 1] + lanes[at + 9]) + (lanes[at + 5] + lanes[at + 13]);
        float c = (lanes[at + 2] + lanes[at + 10]) + (lanes[at + 6] + lanes[at + 14]);
        float d = (lanes[at + 3] + lanes[at + 11]) + (lanes[at + 7] + lanes[at + 15]);
        return (a + c) + (b + d);
    }

    @Override
    public void accumulate(
            float[] weights,
            int firstRow,
            int numRows,
            int[] counts,
            int headDim,
            float[] values,
            int[] valueOffsets,
            float[] openSums) {
        for (int r = firstRow; r < firstRow + numRows; r++) {
            for (int d = 0; d < headDim; d++) {
                float sum = openSums[r * headDim + d];
                for (int p = 0; p < counts[r]; p++) {
                    float value = values[valueOffsets[p / BLOCK_SIZE] + p % BLOCK_SIZE * headDim + d];
                    sum = Math.fma(weights[r * TILE_SIZE + p], value, sum);
                }
                openSums[r * headDim + d] = sum;
            }
        }
    }

    @Override
    public void accumulate(
            float[] weights,
            int firstRow,
            int numRows,
            int[] counts,
            int headDim,
            int[] values,
            int[] valueOffsets,
            float[] openSums) {
        for (int r = firstRow; r < firstRow + numRows; r++) {
            for (int d = 0; d < headDim; d++) {
                float sum = openSums[r * headDim + d];
                for (int p = 0; p < counts[r]; p += 2) {
                    int pair = values[valueOffsets[p / BLOCK_SIZE] + Bfloat16.valuePair(p % BLOCK_SIZE, d, headDim)];
                    if (p + 1 < counts[r]) {
                        sum = Math.fma(weights[r * TILE_SIZE + p + 1], Bfloat16.high(pair), sum);
                    }
                    sum = Math.fma(weights[r * TILE_SIZE + p], Bfloat16.low(pair), sum);
                }
                openSums[r * headDim + d] = sum;
            }
        }
    }

    @Override
    public void add(float[] x, int xOffset, float[] y, int yOffset, int count) {
        for (int i = 0; i < count; i++) {
            x[xOffset + i] += y[yOffset + i];
        }
    }
}
