package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.util.Arrays;

/**
 * Folds groups of tiles into many rows by products of the matrix library: the scores of a group's whole tiles are one product,
 * those of a tile that rows see in part another one, and the values of all of them a third, whose sums go to the rows'
 * accumulators. Those are outside of the Java heap meanwhile. What the library cannot do (to go on with a chain, to begin one
 * anew for a row whose maximum is raised within the group) the kernels do, with the same bits. Used by its thread only.
 */
final class AttentionGroups implements AutoCloseable {
    /** Elements of a product that go through all that follows together: they stay in the first-level cache. */
    static final int CHUNK_ELEMENTS = 2048;

    /** Of more rows, what a tile's products take is far more than bringing it; it mostly is in a cache from other rows, too. */
    private static final int MAX_ROWS_TO_READ_AHEAD = 64;

    private final Kernels kernels;
    private final KvPool pool;
    private final KvTiles tiles;
    private final AttentionRows rows;
    private final AttentionProducts products;
    private final ReadAhead readAhead;
    private final int headDim;
    private final int groupSize;
    private final float[] ones;
    private final int[] raised; // rows whose maximum was raised within the group
    private final float[] weightsOfRow = new float[Kernels.GROUP_TILES * Kernels.TILE_SIZE];
    private AttentionPlan plan; // with the piece and the layer: what is folded
    private int piece;
    private int layer;
    private int kvHead;
    private int[] table;
    private int numTokens;

    AttentionGroups(
            Kernels kernels,
            KvPool pool,
            KvTiles tiles,
            AttentionRows rows,
            AttentionShapes shapes,
            ReadAhead readAhead,
            int headDim,
            int groupSize) {
        this.kernels = kernels;
        this.pool = pool;
        this.tiles = tiles;
        this.rows = rows;
        this.readAhead = readAhead;
        this.headDim = headDim;
        this.groupSize = groupSize;
        int maxRows = rows.maxima.length;
        products = new AttentionProducts(shapes, maxRows, kernels);
        ones = new float[maxRows];
        Arrays.fill(ones, 1f);
        raised = new int[maxRows];
    }

    /** Folds a piece for all of its tokens, whose queries and limits are set; last pieces leave no open sums. */
    void fold(AttentionPlan plan, int piece, int layer, int kvHead) {
        this.plan = plan;
        this.piece = piece;
        this.layer = layer;
        this.kvHead = kvHead;
        table = plan.blockTable(piece);
        numTokens = plan.numTokens(piece);
        int numRows = numTokens * groupSize;
        int shortest = Integer.MAX_VALUE;
        for (int i = 0; i < numTokens; i++) {
            shortest = Math.min(shortest, rows.limits[i]);
        }
        products.putQueries(rows.queries, numRows);
        int tile = plan.firstTile(piece);
        int end = plan.endTile(piece);
        if (tile == 0) {
            products.clearAccumulators();
        } else {
            tile = foldOpenGroup(tile, end);
            products.putAccumulators(rows.accumulators, numRows);
        }
        for (int stop; tile < end; tile = stop) {
            stop = Math.min(end, tile + Kernels.GROUP_TILES);
            int endOfWhole = Math.max(tile, Math.min(stop, shortest / Kernels.TILE_SIZE));
            findNext(stop, Math.min(end, shortest / Kernels.TILE_SIZE));
            foldGroup(tile, endOfWhole, stop);
        }
        products.readAccumulators(rows.accumulators, numRows);
    }

    /** Goes on to the end of a group that another piece began; returns the tile there. */
    private int foldOpenGroup(int firstTile, int end) {
        int tile = firstTile;
        for (; tile < end && !AttentionRows.beginsGroup(tile); tile++) {
            rows.fold(layer, tile, kvHead, 0, numTokens, table);
        }
        if (plan.isLast(piece)) {
            rows.close(0, numTokens, firstTile - 1, tile);
        }
        return tile;
    }

    /** Has the tiles of the next group read ahead, or the followers' first ones behind the last group. */
    private void findNext(int tile, int endOfWhole) {
        readAhead.begin(layer);
        if (numTokens * groupSize > MAX_ROWS_TO_READ_AHEAD) {
            return;
        }
        if (tile < endOfWhole) {
            readAhead.addTiles(plan, piece, tile, Math.min(Kernels.GROUP_TILES, endOfWhole - tile), kvHead);
            return;
        }
        for (int next = plan.firstFollower(piece); next >= 0; next = plan.nextFollower(next)) {
            readAhead.addTiles(plan, next, plan.firstTile(next), 1, kvHead);
        }
    }

    /** Tiles of a group, the first ones of which all rows see in full; by products as many as go, the rest by the kernels. */
    private void foldGroup(int tile, int endOfWhole, int stop) {
        int endOfProducts = endOfWhole;
        while (endOfProducts < stop && suitsProducts(endOfProducts)) {
            endOfProducts++;
        }
        int numRows = numTokens * groupSize;
        boolean isLast = plan.isLast(piece);
        if (endOfProducts > tile) {
            int firstRow = endOfWhole > tile ? 0 : rows.firstToken(tile, 0) * groupSize;
            int numParts = (numRows - firstRow) * (endOfWhole - tile) * Kernels.TILE_SIZE / CHUNK_ELEMENTS
                    + endOfProducts
                    - tile;
            if (endOfWhole > tile) {
                foldWhole(tile, endOfWhole - tile, numParts);
            }
            for (int part = endOfWhole; part < endOfProducts; part++) {
                foldPart(part, firstRow);
            }
            boolean staysOpen = endOfProducts < stop || !isLast && !AttentionRows.beginsGroup(stop);
            sum(tile, endOfProducts - tile, firstRow, staysOpen, numParts);
        }
        if (endOfProducts < stop) {
            products.readAccumulators(rows.accumulators, numRows);
            for (int part = endOfProducts; part < stop; part++) {
                rows.fold(layer, part, kvHead, 0, numTokens, table);
            }
            if (isLast) {
                rows.close(0, numTokens, tile, stop);
            }
            products.putAccumulators(rows.accumulators, numRows);
        }
    }

    private int numSlots(int tile) {
        return Math.min(Kernels.TILE_SIZE, plan.contextLength(piece) - tile * Kernels.TILE_SIZE);
    }

    /**
     * Whether a tile that rows see in part is worth a product and may be one: a weight of 0 adds nothing to a sum, which is
     * never -0, if the value is finite.
     */
    private boolean suitsProducts(int tile) {
        int numRows = (numTokens - rows.firstToken(tile, 0)) * groupSize;
        if (numRows < AttentionProducts.MIN_ROWS) {
            return false;
        }
        tiles.find(layer, tile, numSlots(tile), kvHead, table);
        return products.areFinite(pool.pairs(layer), tiles.valueOffsets, numSlots(tile));
    }

    private void foldWhole(int tile, int numTiles, int numParts) {
        for (int t = 0; t < numTiles; t++) {
            tiles.find(layer, tile + t, Kernels.TILE_SIZE, kvHead, table);
            products.putKeys(t, pool.pairs(layer), tiles.keyOffsets, tiles.numBlocks());
        }
        int end = numTokens * groupSize;
        int width = numTiles * Kernels.TILE_SIZE;
        int most = CHUNK_ELEMENTS / width;
        int numDone;
        for (int row = 0; row < end; row += numDone) {
            numDone = products.multiplyKeys(numTiles, row, end - row);
            for (int r = 0; r < numDone; r += most) {
                int count = Math.min(most, numDone - r);
                readAhead.advance(numParts);
                products.read(r * width, rows.scores, count * width);
                kernels.foldTiles(rows.scores, numTiles, row + r, count, rows.maxima, rows.sums, rows.factors, true);
                products.putWeights(0, numTiles, row + r, count, rows.scores);
            }
        }
    }

    /** A tile of which rows see different parts, those before some row nothing: their scores of the rest are not looked at. */
    private void foldPart(int tile, int firstRow) {
        int at = tile % Kernels.GROUP_TILES;
        int firstToken = rows.firstToken(tile, 0);
        int firstSeeing = firstToken * groupSize;
        products.clearWeights(at, firstRow, firstSeeing - firstRow);
        Arrays.fill(rows.factors[at], firstRow, firstSeeing, 1f);
        rows.count(tile, firstToken, numTokens);
        tiles.find(layer, tile, numSlots(tile), kvHead, table);
        products.putKeys(0, pool.pairs(layer), tiles.keyOffsets, tiles.numBlocks());
        int width = Kernels.TILE_SIZE;
        int most = CHUNK_ELEMENTS / width;
        int end = numTokens * groupSize;
        int numDone;
        for (int row = firstSeeing; row < end; row += numDone) {
            numDone = products.multiplyKeys(1, row, end - row);
            for (int r = 0; r < numDone; r += most) {
                int count = Math.min(most, numDone - r);
                products.read(r * width, rows.scores, count * width);
                kernels.foldScores(
                        rows.scores,
                        0,
                        width,
                        row + r,
                        count,
                        rows.counts,
                        rows.maxima,
                        rows.sums,
                        rows.factors[at],
                        true);
                products.putWeights(at, 1, row + r, count, rows.scores);
            }
        }
    }

    /** Multiplies weights of the group's first tiles with their values; the sums stay open or go to the accumulators. */
    private void sum(int tile, int numTiles, int firstRow, boolean staysOpen, int numParts) {
        for (int t = 0; t < numTiles; t++) {
            int numSlots = numSlots(tile + t);
            tiles.find(layer, tile + t, numSlots, kvHead, table);
            products.putValues(t, numTiles, pool.pairs(layer), tiles.valueOffsets, numSlots);
            readAhead.advance(numParts);
        }
        int end = numTokens * groupSize;
        products.sendWeights(firstRow, end - firstRow);
        int numRaised = findRaised(numTiles, firstRow, end);
        for (int i = 0; i < numRaised; i++) {
            sumRaised(raised[i], tile, numTiles, staysOpen);
        }
        products.rescale(rows.factors[0], firstRow, end - firstRow);
        int numDone;
        for (int row = firstRow; row < end; row += numDone) {
            numDone = products.multiplyValues(numTiles, staysOpen, row, end - row);
        }
        if (!staysOpen) {
            products.beginAccumulators();
        }
        for (int i = 0; i < numRaised; i++) {
            products.putAccumulators(raised[i], rows.accumulators);
            if (staysOpen) {
                products.putOpenSums(raised[i], rows.openSums);
            }
        }
        if (staysOpen) {
            products.readOpenSums(rows.openSums, firstRow, end - firstRow);
        }
    }

    /** Few, mostly none. */
    private int findRaised(int numTiles, int firstRow, int end) {
        boolean areAny = false;
        for (int t = 1; t < numTiles; t++) {
            areAny |= !Arrays.equals(rows.factors[t], firstRow, end, ones, firstRow, end);
        }
        int numRaised = 0;
        for (int row = firstRow; areAny && row < end; row++) {
            boolean isRaised = false;
            for (int t = 1; t < numTiles; t++) {
                isRaised |= rows.factors[t][row] != 1f;
            }
            if (isRaised) {
                raised[numRaised++] = row;
            }
        }
        return numRaised;
    }

    /** The same by the kernels for a row whose sums begin anew within the group; what the product gives for it is replaced. */
    private void sumRaised(int row, int tile, int numTiles, boolean staysOpen) {
        int at = row * headDim;
        products.readAccumulators(row, rows.accumulators);
        products.readWeights(row, weightsOfRow);
        Arrays.fill(rows.openSums, at, at + headDim, 0f);
        int limit = rows.limits[row / groupSize];
        for (int t = 0; t < numTiles && limit > (tile + t) * Kernels.TILE_SIZE; t++) {
            float factor = rows.factors[t][row];
            if (tile + t > 0 && factor != 1f) {
                rows.shrink(row, factor, t > 0);
            }
            rows.counts[row] = Math.min(Kernels.TILE_SIZE, limit - (tile + t) * Kernels.TILE_SIZE);
            tiles.find(layer, tile + t, rows.counts[row], kvHead, table);
            System.arraycopy(
                    weightsOfRow, t * Kernels.TILE_SIZE, rows.scores, row * Kernels.TILE_SIZE, Kernels.TILE_SIZE);
            tiles.accumulate(rows.scores, row, 1, rows.counts, rows.openSums);
        }
        if (!staysOpen) {
            kernels.add(rows.accumulators, at, rows.openSums, at, headDim);
        }
    }

    @Override
    public void close() {
        products.close();
    }
}
