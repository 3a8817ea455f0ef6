package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.util.Arrays;

/**
 * The rows of a piece (tokens × heads of a group) while one compute thread folds tiles into them, and folds by the kernels. A
 * row's sums over the positions of a group of tiles are one chain: the open sums, added to its accumulators where the group ends,
 * or what the row sees. If a score raises the row's maximum, they are added first, then the accumulators shrink, and the chain
 * begins anew. {@link AttentionGroups} does the same by products. Used by its thread only.
 */
final class AttentionRows {
    final float[] queries; // [rows][head dim]
    final float[] scores; // [rows][tile]
    final float[] maxima;
    final float[] sums; // [rows][lanes]
    final float[][] factors; // [tiles of a group][rows]
    final float[] accumulators; // [rows][head dim]
    final float[] openSums; // [rows][head dim]
    final int[] counts;
    final int[] limits; // of each token: how many positions it sees
    private final Kernels kernels;
    private final KvTiles tiles;
    private final int headDim;
    private final int groupSize;

    /** @param minScores elements of scores at least */
    AttentionRows(Kernels kernels, KvTiles tiles, int headDim, int groupSize, int maxTokens, int minScores) {
        this.kernels = kernels;
        this.tiles = tiles;
        this.headDim = headDim;
        this.groupSize = groupSize;
        int rows = maxTokens * groupSize;
        queries = new float[rows * headDim];
        scores = new float[Math.max(rows * Kernels.TILE_SIZE, minScores)];
        maxima = new float[rows];
        sums = new float[rows * Kernels.LANES];
        factors = new float[Kernels.GROUP_TILES][rows];
        accumulators = new float[rows * headDim];
        openSums = new float[rows * headDim];
        counts = new int[rows];
        limits = new int[maxTokens];
    }

    /** Whether a group begins with a tile. */
    static boolean beginsGroup(int tile) {
        return tile % Kernels.GROUP_TILES == 0;
    }

    /** The first of the tokens, from one on, that sees anything of a tile. */
    int firstToken(int tile, int from) {
        int firstToken = from;
        while (limits[firstToken] <= tile * Kernels.TILE_SIZE) {
            firstToken++;
        }
        return firstToken;
    }

    /** Notes how much each row sees of a tile; returns the most. */
    int count(int tile, int firstToken, int endToken) {
        int longest = 0;
        for (int i = firstToken; i < endToken; i++) {
            int count = Math.min(Kernels.TILE_SIZE, limits[i] - tile * Kernels.TILE_SIZE);
            longest = Math.max(longest, count);
            Arrays.fill(counts, i * groupSize, (i + 1) * groupSize, count);
        }
        return longest;
    }

    /** Folds a tile for some neighbouring tokens, as far as they see it. */
    void fold(int layer, int tile, int kvHead, int from, int endToken, int[] table) {
        int firstToken = firstToken(tile, from);
        int longest = count(tile, firstToken, endToken);
        tiles.find(layer, tile, longest, kvHead, table);
        int row = firstToken * groupSize;
        int numRows = (endToken - firstToken) * groupSize;
        int size = Kernels.TILE_SIZE;
        float[] shrinks = factors[0];
        tiles.scores(queries, row, numRows, scores);
        kernels.foldScores(scores, row * size, size, row, numRows, counts, maxima, sums, shrinks, tiles.isBfloat16());
        int at = row * headDim;
        boolean isOpen = !beginsGroup(tile);
        if (!isOpen) {
            Arrays.fill(openSums, at, at + numRows * headDim, 0f);
        }
        for (int r = row; tile > 0 && r < row + numRows; r++) { // before the first tile, accumulators are 0
            if (shrinks[r] != 1f) {
                shrink(r, shrinks[r], isOpen);
            }
        }
        tiles.accumulate(scores, row, numRows, counts, openSums);
        if (beginsGroup(tile + 1)) {
            kernels.add(accumulators, at, openSums, at, numRows * headDim);
        }
    }

    /** Has a row's accumulators shrink, after the open sums, if there are any, have been added. */
    void shrink(int row, float factor, boolean isOpen) {
        int at = row * headDim;
        if (isOpen) {
            kernels.add(accumulators, at, openSums, at, headDim);
            Arrays.fill(openSums, at, at + headDim, 0f);
        }
        kernels.scale(accumulators, at, factor, headDim);
    }

    /** Adds the open sums of tokens the last tile of which is one of some, unless a group ends with it. */
    void close(int firstToken, int endToken, int firstTile, int endTile) {
        int elements = groupSize * headDim;
        for (int i = firstToken; i < endToken; i++) {
            int lastTile = (limits[i] - 1) / Kernels.TILE_SIZE;
            if (lastTile >= firstTile && lastTile < endTile && !beginsGroup(lastTile + 1)) {
                kernels.add(accumulators, i * elements, openSums, i * elements, elements);
            }
        }
    }
}
