package io.millrace.kernels;

/** The Vector API kernels behind the common interface. Load it only where the module is present. */
final class VectorKernels implements Kernels {
    private static final ThreadLocal<float[]> LANE_SCRATCH = ThreadLocal.withInitial(() -> new float[LANES]);

    private final ScalarKernels scalar = new ScalarKernels();

    @Override
    public String name() {
        return "vector-" + VectorRows.F.vectorBitSize();
    }

    @Override
    public void rmsNorm(float[] x, int xOffset, float[] weight, float eps, float[] out, int outOffset, int count) {
        VectorRows.rmsNorm(x, xOffset, weight, eps, out, outOffset, count, LANE_SCRATCH.get());
    }

    @Override
    public void rmsNormToBfloat16(
            float[] x, int xOffset, float[] weight, float eps, short[] out, int outOffset, int count) {
        VectorRows.rmsNormToBfloat16(x, xOffset, weight, eps, out, outOffset, count, LANE_SCRATCH.get());
    }

    @Override
    public void rotate(float[] x, int offset, float[] cos, float[] sin, int tableOffset, int half) {
        VectorRows.rotate(x, offset, cos, sin, tableOffset, half);
    }

    @Override
    public void scale(float[] x, int offset, float factor, int count) {
        VectorRows.scale(x, offset, factor, count);
    }

    @Override
    public void toBfloat16(float[] source, int sourceOffset, short[] target, int targetOffset, int count) {
        VectorRows.toBfloat16(source, sourceOffset, target, targetOffset, count);
    }

    @Override
    public void scaleToBfloat16(float[] x, int offset, float factor, float[] out, int outOffset, int count) {
        VectorRows.scaleToBfloat16(x, offset, factor, out, outOffset, count);
    }

    @Override
    public void pairBfloat16(
            float[] low, int lowOffset, float[] high, int highOffset, int[] pairs, int offset, int count) {
        VectorRows.pairBfloat16(low, lowOffset, high, highOffset, pairs, offset, count);
    }

    @Override
    public void putBfloat16(float[] source, int sourceOffset, int[] pairs, int offset, int count, boolean isHigh) {
        VectorRows.putBfloat16(source, sourceOffset, pairs, offset, count, isHigh);
    }

    @Override
    public boolean isFinite(float[] x, int offset, int count) {
        return VectorRows.isFinite(x, offset, count, LANE_SCRATCH.get());
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
        VectorAttentionFloat.scores(queries, firstRow, numRows, headDim, keys, keyOffsets, numBlocks, scores);
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
        VectorAttentionBfloat16.scores(queries, firstRow, numRows, headDim, keys, keyOffsets, numBlocks, scores);
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
        VectorFolds.foldScores(
                scores, scoresOffset, scoresStride, firstRow, numRows, counts, maxima, sums, factors, toBfloat16);
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
        VectorFolds.foldTiles(scores, numTiles, firstRow, numRows, maxima, sums, factors, toBfloat16);
    }

    @Override
    public void narrow(float[] source, int sourceOffset, short[] target, int targetOffset, int count) {
        VectorRows.narrow(source, sourceOffset, target, targetOffset, count);
    }

    @Override
    public float sumLanes(float[] sums, int row) {
        return scalar.sumLanes(sums, row);
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
        if (headDim % LANES != 0) {
            scalar.accumulate(weights, firstRow, numRows, counts, headDim, values, valueOffsets, openSums);
            return;
        }
        VectorAttentionFloat.accumulate(weights, firstRow, numRows, counts, headDim, values, valueOffsets, openSums);
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
        VectorAttentionBfloat16.accumulate(weights, firstRow, numRows, counts, headDim, values, valueOffsets, openSums);
    }

    @Override
    public void add(float[] x, int xOffset, float[] y, int yOffset, int count) {
        VectorRows.add(x, xOffset, y, yOffset, count);
    }
}
