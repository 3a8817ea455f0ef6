package io.millrace.kernels;

/**
 * Arithmetic over plain arrays whose result is fixed to the bit: every implementation performs the same IEEE operations
 * in the same order (element-wise chains of fused multiply-adds, sums over {@value #LANES} fixed lanes folded by one
 * fixed tree), so the vector kernels, their scalar twins, the interpreter and compiled code all agree.
 *
 * <p>Stateless; any thread. Callers own all arrays. No method allocates.
 */
public interface Kernels {

    /** Lanes of every ordered sum, whatever the machine's vector width. */
    int LANES = 16;

    /** Positions of a KV block. */
    int BLOCK_SIZE = 16;

    /** Positions that attention folds at a time: four blocks. */
    int TILE_SIZE = 64;

    /**
     * Tiles whose sums over positions are one chain, a group: tile t belongs to group t / GROUP_TILES. A chain is
     * long enough for the matrix library to be fast, and short enough for what a sequence begins of its own.
     */
    int GROUP_TILES = 4;

    /**
     * How far base-2 scores may exceed what powers are relative to, before that is raised: both number formats hold 2^32 as
     * well as 1, and sums of a million such are far from float32's greatest number.
     */
    float SLACK = 32;

    /** Short name for logs: {@code vector-512}, {@code scalar}. */
    String name();

    /** out[i] = x[i] × (1 / sqrt(mean(x²) + eps)) × weight[i] (Zhang and Sennrich, RMSNorm). out may be x. */
    void rmsNorm(float[] x, int xOffset, float[] weight, float eps, float[] out, int outOffset, int count);

    /** The same, rounded as {@link #toBfloat16} does. */
    void rmsNormToBfloat16(float[] x, int xOffset, float[] weight, float eps, short[] out, int outOffset, int count);

    /**
     * Turns one head in place: for d below half, (x[d], x[d + half]) turns by the angle whose cosine and sine stand at
     * table offset + d.
     */
    void rotate(float[] x, int offset, float[] cos, float[] sin, int tableOffset, int half);

    /** x[i] *= factor. */
    void scale(float[] x, int offset, float factor, int count);

    /** Rounds to nearest-even bfloat16. */
    void toBfloat16(float[] source, int sourceOffset, short[] target, int targetOffset, int count);

    /** out[i] = x[i] × factor, rounded to bfloat16 as {@link Bfloat16#roundFactor} does, and widened again. out may be x. */
    void scaleToBfloat16(float[] x, int offset, float factor, float[] out, int outOffset, int count);

    /** pairs[i] = {@link Bfloat16#pair}(low[i], high[i]). */
    void pairBfloat16(float[] low, int lowOffset, float[] high, int highOffset, int[] pairs, int offset, int count);

    /** Rounds as {@link #pairBfloat16} does into the high or the low half of pairs; the other half stays. */
    void putBfloat16(float[] source, int sourceOffset, int[] pairs, int offset, int count, boolean isHigh);

    /** Whether no element is NaN or infinite. */
    boolean isFinite(float[] x, int offset, int count);

    /**
     * Dot products of query rows with a tile of keys: scores[(r × TILE_SIZE) + p] for rows r in [firstRow, firstRow +
     * numRows) and positions p of numBlocks blocks. Each is one chain of multiply-adds over d ascending, from 0.
     *
     * @param queries [rows][headDim]
     * @param keys block b's key element d of slot s stands at keyOffsets[b] + d × BLOCK_SIZE + s
     */
    void scores(
            float[] queries,
            int firstRow,
            int numRows,
            int headDim,
            float[] keys,
            int[] keyOffsets,
            int numBlocks,
            float[] scores);

    /**
     * The same over pairs of bfloat16 keys, the lower in an int's low half (widened exactly: equal to converting first).
     * Of a pair, the odd element comes first in the chain: so AVX-512's VDPBF16PS adds, and the matrix library with it.
     *
     * @param queries bfloat16 numbers, see {@link #scaleToBfloat16}
     * @param headDim even
     * @param keys block b's key elements d and d + 1 (d even) of slot s stand at keyOffsets[b] + d / 2 × BLOCK_SIZE + s
     */
    void scores(
            float[] queries,
            int firstRow,
            int numRows,
            int headDim,
            int[] keys,
            int[] keyOffsets,
            int numBlocks,
            float[] scores);

    /**
     * Folds the rows' tiles of base-2 scores into their online softmax (Milakov and Gimelshein): replaces each row's first
     * counts[r] scores by 2^(score - maximum), the rest of its tile by 0, and adds them to the row's 16 lanes of sums. Maxima are
     * raised only where a score exceeds them by more than {@link #SLACK} (then to the tile's largest score), so that nearly
     * always nothing shrinks after the first tile (Dao et al. do so in FlashAttention-4).
     *
     * @param scores row r's tile stands at scoresOffset + (r - firstRow) × scoresStride
     * @param maxima [rows], negative infinity before the first tile
     * @param sums [rows][LANES]
     * @param factors [rows], receives what the accumulations under the old maxima shrink by
     * @param toBfloat16 whether powers are rounded to bfloat16 before they are added, those below {@link Bfloat16#SMALLEST} to 0
     */
    void foldScores(
            float[] scores,
            int scoresOffset,
            int scoresStride,
            int firstRow,
            int numRows,
            int[] counts,
            float[] maxima,
            float[] sums,
            float[] factors,
            boolean toBfloat16);

    /**
     * The same for one or several tiles that all rows see in full, one after the other.
     *
     * @param scores row r's tiles stand at (r - firstRow) × numTiles × TILE_SIZE
     * @param factors [tiles][rows]
     */
    void foldTiles(
            float[] scores,
            int numTiles,
            int firstRow,
            int numRows,
            float[] maxima,
            float[] sums,
            float[][] factors,
            boolean toBfloat16);

    /** Upper halves of numbers that are bfloat16 numbers already; a multiple of {@value #LANES}. */
    void narrow(float[] source, int sourceOffset, short[] target, int targetOffset, int count);

    /** The fixed tree over one row's 16 lanes of sums. */
    float sumLanes(float[] sums, int row);

    /**
     * openSums[r][d] += Σ weights[r][p] × values[p][d]: the chain of multiply-adds goes on over p ascending from 0 to counts[r];
     * positions at or beyond counts[r] are not touched.
     *
     * @param weights [rows][TILE_SIZE]
     * @param counts [rows], not descending within the rows given
     * @param values element d of slot s of block b stands at valueOffsets[b] + s × headDim + d
     * @param openSums [rows][headDim], 0 where a chain begins
     */
    void accumulate(
            float[] weights,
            int firstRow,
            int numRows,
            int[] counts,
            int headDim,
            float[] values,
            int[] valueOffsets,
            float[] openSums);

    /**
     * The same over pairs of bfloat16 values, of each pair the odd position first.
     *
     * @param weights bfloat16 numbers
     * @param values element d of slots s and s + 1 (s even, in the low half) of block b stand together at valueOffsets[b] +
     *     s / 2 × headDim + d
     */
    void accumulate(
            float[] weights,
            int firstRow,
            int numRows,
            int[] counts,
            int headDim,
            int[] values,
            int[] valueOffsets,
            float[] openSums);

    /** x[i] += y[i]. */
    void add(float[] x, int xOffset, float[] y, int yOffset, int count);
}
