package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.util.Arrays;

/**
 * One compute thread's part in attention: folds the tiles of a piece for all of its rows together, so that a tile's keys
 * and values come from memory once for them. By products of the matrix library where rows are many, else by the kernels: the
 * bits are the same.
 */
final class AttentionThread implements AutoCloseable {
    private static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;

    /** Elements of a product that go through all that follows together: they stay in the first-level cache. */
    private static final int CHUNK_ELEMENTS = 2048;

    /** Of more rows, what a tile's products take is far more than bringing it; it mostly is in a cache from other rows, too. */
    private static final int MAX_ROWS_TO_READ_AHEAD = 64;

    private final Kernels kernels;
    private final KvPool pool;
    private final AttentionState state;
    private final AttentionProducts products; // null where the library cannot
    private final int headDim;
    private final int numKvHeads;
    private final int groupSize;
    private final int queryWidth;
    private final float[] queries;
    private final float[] scores;
    private final float[] maxima;
    private final float[] sums;
    private final float[][] factors; // [tiles whose scores are one product][rows]
    private final float[] accumulators;
    private final float[] tileSums;
    private final int[] counts;
    private final int[] limits;
    private final boolean[] isFollowed; // the piece's tokens whose folds a follower has ended
    private final int[] keyOffsets = new int[BLOCKS_PER_TILE];
    private final int[] valueOffsets = new int[BLOCKS_PER_TILE];
    private final ReadAhead readAhead; // null where the pool does not hold pairs
    private int comingPiece; // that this or another thread will run about next, or -1
    private int comingKvHead;
    private final short[] halfScratch;
    private final float[] wideKeyValues; // [blocks of a tile] of keys, then values, where the pool holds 8-bit numbers

    AttentionThread(
            Kernels kernels,
            KvPool pool,
            int maxTokensPerPiece,
            AttentionState state,
            AttentionShapes shapes,
            int headDim,
            int numKvHeads,
            int groupSize,
            int queryWidth) {
        this.kernels = kernels;
        this.pool = pool;
        this.state = state;
        this.headDim = headDim;
        this.numKvHeads = numKvHeads;
        this.groupSize = groupSize;
        this.queryWidth = queryWidth;
        int rows = maxTokensPerPiece * groupSize;
        queries = new float[rows * headDim];
        scores = new float[Math.max(rows * Kernels.TILE_SIZE, CHUNK_ELEMENTS)];
        maxima = new float[rows];
        sums = new float[rows * Kernels.LANES];
        factors = new float[AttentionProducts.MAX_TILES][rows];
        accumulators = new float[rows * headDim];
        tileSums = new float[pool.isPaired() ? rows * headDim : 0];
        products = pool.isPaired() && shapes.areUsable() ? new AttentionProducts(shapes, rows, kernels) : null;
        readAhead = pool.isPaired() ? new ReadAhead(pool, headDim) : null;
        counts = new int[rows];
        limits = new int[maxTokensPerPiece];
        isFollowed = new boolean[maxTokensPerPiece];
        halfScratch = new short[rows * headDim];
        wideKeyValues = new float[pool.isInt8() ? 2 * Kernels.TILE_SIZE * headDim : 0];
    }

    /**
     * Runs neighbouring units of a level: a unit is one piece for one KV head.
     *
     * @param allQueries [tokens][query heads × head dim], rotated and scaled by log2(e) / sqrt(headDim)
     * @param positions of the batch's tokens
     * @param output receives [the plan's rows][query heads × head dim] where the piece ends the folds
     */
    void run(
            AttentionPlan plan,
            int level,
            int firstUnit,
            int endUnit,
            int layer,
            float[] allQueries,
            int[] positions,
            ActivationBuffer output) {
        int numUnits = plan.numPieces(level) * numKvHeads;
        for (int unit = firstUnit; unit < endUnit; unit++) {
            boolean isLast = unit + 1 == endUnit;
            int coming = isLast ? unit + plan.numThreads() : unit + 1;
            comingPiece = coming < numUnits ? plan.piece(level, coming / numKvHeads) : -1;
            comingKvHead = coming % numKvHeads;
            if (readAhead != null && !isLast) {
                readPartOfTile(plan, comingPiece, layer, comingKvHead);
            }
            run(plan, plan.piece(level, unit / numKvHeads), layer, unit % numKvHeads, allQueries, positions, output);
        }
    }

    /**
     * Reads a piece's first tile, if it is a part of one: hardware reads ahead by itself in whole tiles, but has hardly begun
     * when so few blocks are over.
     */
    private void readPartOfTile(AttentionPlan plan, int piece, int layer, int kvHead) {
        readAhead.begin(layer);
        if (plan.endBlock(piece) - plan.firstTile(piece) * BLOCKS_PER_TILE < BLOCKS_PER_TILE) {
            readAhead.addTiles(plan, piece, plan.firstTile(piece), 1, kvHead);
        }
        readAhead.advance(1);
    }

    /** Runs one unit. */
    private void run(
            AttentionPlan plan,
            int piece,
            int layer,
            int kvHead,
            float[] allQueries,
            int[] positions,
            ActivationBuffer output) {
        int numTokens = plan.numTokens(piece);
        int head = kvHead * groupSize;
        boolean byProducts = products != null && numTokens * groupSize >= AttentionProducts.MIN_ROWS;
        gather(plan, piece, numTokens, head, allQueries, positions, byProducts);
        int[] table = plan.blockTable(piece);
        if (byProducts) {
            products.putQueries(queries, numTokens * groupSize);
            foldManyRows(plan, piece, layer, kvHead, numTokens, table);
        } else {
            for (int tile = plan.firstTile(piece); tile < plan.endTile(piece); tile++) {
                foldTile(layer, tile, kvHead, 0, numTokens, table);
            }
        }
        if (plan.isLast(piece)) {
            finish(plan, piece, 0, numTokens, head, output);
        } else {
            runFollowers(plan, piece, layer, kvHead, output);
            save(plan, piece, numTokens, head);
        }
    }

    /** Carries on with the piece's rows as they stand. */
    private void runFollowers(AttentionPlan plan, int piece, int layer, int kvHead, ActivationBuffer output) {
        Arrays.fill(isFollowed, 0, plan.numTokens(piece), false);
        if (readAhead != null) {
            readAhead.begin(layer);
            if (comingPiece >= 0) {
                int tile = plan.firstTile(comingPiece);
                int together = AttentionProducts.tilesTogether(plan.endTile(comingPiece) - tile);
                readAhead.addTiles(plan, comingPiece, tile, together, comingKvHead);
            }
        }
        int next;
        for (int follower = plan.firstFollower(piece); follower >= 0; follower = next) {
            next = plan.nextFollower(follower);
            if (readAhead != null) {
                readAhead.advance(plan.numTokens(piece));
            }
            int firstToken = plan.indexInLeader(follower);
            int endToken = firstToken + plan.numTokens(follower);
            for (int tile = plan.firstTile(follower); tile < plan.endTile(follower); tile++) {
                foldTile(layer, tile, kvHead, firstToken, endToken, plan.blockTable(follower));
            }
            finish(plan, follower, firstToken, plan.numTokens(follower), kvHead * groupSize, output);
            Arrays.fill(isFollowed, firstToken, endToken, true);
        }
    }

    private void save(AttentionPlan plan, int piece, int numTokens, int head) {
        for (int i = 0; i < numTokens; i++) {
            if (!isFollowed[i]) {
                int slot = plan.stateSlot(plan.row(piece, i));
                state.save(slot, head, groupSize, maxima, sums, accumulators, i * groupSize);
            }
        }
    }

    private void gather(
            AttentionPlan plan,
            int piece,
            int numTokens,
            int head,
            float[] allQueries,
            int[] positions,
            boolean byProducts) {
        int rowElements = groupSize * headDim;
        for (int i = 0; i < numTokens; i++) {
            int token = plan.token(piece, i);
            limits[i] = positions[token] + 1;
            System.arraycopy(allQueries, token * queryWidth + head * headDim, queries, i * rowElements, rowElements);
        }
        if (plan.firstTile(piece) == 0) {
            int rows = numTokens * groupSize;
            Arrays.fill(maxima, 0, rows, Float.NEGATIVE_INFINITY);
            Arrays.fill(sums, 0, rows * Kernels.LANES, 0f);
            if (!byProducts) { // products begin their own
                Arrays.fill(accumulators, 0, rows * headDim, 0f);
            }
        } else {
            for (int i = 0; i < numTokens; i++) {
                int slot = plan.stateSlot(plan.row(piece, i));
                state.load(slot, head, groupSize, maxima, sums, accumulators, i * groupSize);
            }
        }
    }

    /** Whole tiles as many at a time as one product takes, then what is left. */
    private void foldManyRows(AttentionPlan plan, int piece, int layer, int kvHead, int numTokens, int[] table) {
        int shortest = Integer.MAX_VALUE;
        for (int i = 0; i < numTokens; i++) {
            shortest = Math.min(shortest, limits[i]);
        }
        int rows = numTokens * groupSize;
        if (plan.firstTile(piece) == 0) {
            products.clearAccumulators();
        } else {
            products.putAccumulators(accumulators, rows);
        }
        int end = plan.endTile(piece);
        int endOfWhole = Math.min(end, shortest / Kernels.TILE_SIZE);
        int tile = plan.firstTile(piece);
        while (tile < endOfWhole) {
            int together = AttentionProducts.tilesTogether(endOfWhole - tile);
            findNext(plan, piece, layer, kvHead, tile + together, endOfWhole);
            foldByProducts(layer, tile, together, true, Kernels.TILE_SIZE, kvHead, 0, numTokens, table);
            tile += together;
        }
        for (; tile < end; tile++) {
            int firstToken = firstToken(tile, 0);
            int numSlots = Math.min(Kernels.TILE_SIZE, plan.contextLength(piece) - tile * Kernels.TILE_SIZE);
            findBlocks(tile, numSlots, kvHead, table);
            if ((numTokens - firstToken) * groupSize >= AttentionProducts.MIN_ROWS
                    && products.areFinite(pool.pairs(layer), valueOffsets, numSlots)) {
                foldByProducts(layer, tile, 1, false, numSlots, kvHead, firstToken, numTokens, table);
            } else {
                products.readAccumulators(accumulators, rows);
                foldTile(layer, tile, kvHead, 0, numTokens, table);
                products.putAccumulators(accumulators, rows);
            }
        }
        products.readAccumulators(accumulators, rows);
    }

    /** Has the tiles of the next product read ahead, or the followers' first ones behind the last product. */
    private void findNext(AttentionPlan plan, int piece, int layer, int kvHead, int tile, int endOfWhole) {
        readAhead.begin(layer);
        if (plan.numTokens(piece) * groupSize > MAX_ROWS_TO_READ_AHEAD) {
            return;
        }
        if (tile < endOfWhole) {
            readAhead.addTiles(plan, piece, tile, AttentionProducts.tilesTogether(endOfWhole - tile), kvHead);
            return;
        }
        for (int next = plan.firstFollower(piece); next >= 0; next = plan.nextFollower(next)) {
            readAhead.addTiles(plan, next, plan.firstTile(next), 1, kvHead);
        }
    }

    /** The first of the piece's tokens, from one on, that sees anything of a tile. */
    private int firstToken(int tile, int from) {
        int firstToken = from;
        while (limits[firstToken] <= tile * Kernels.TILE_SIZE) {
            firstToken++;
        }
        return firstToken;
    }

    /** Notes how much each row sees of a tile; returns the most. */
    private int count(int tile, int firstToken, int endToken) {
        int longest = 0;
        for (int i = firstToken; i < endToken; i++) {
            int count = Math.min(Kernels.TILE_SIZE, limits[i] - tile * Kernels.TILE_SIZE);
            longest = Math.max(longest, count);
            Arrays.fill(counts, i * groupSize, (i + 1) * groupSize, count);
        }
        return longest;
    }

    /** Finds the blocks of a tile up to a slot; returns how many they are. */
    private int findBlocks(int tile, int numSlots, int kvHead, int[] table) {
        int numBlocks = (numSlots + Kernels.BLOCK_SIZE - 1) / Kernels.BLOCK_SIZE;
        for (int b = 0; b < numBlocks; b++) {
            int block = table[tile * BLOCKS_PER_TILE + b];
            keyOffsets[b] = pool.keyOffset(block, kvHead);
            valueOffsets[b] = pool.valueOffset(block, kvHead);
        }
        return numBlocks;
    }

    /**
     * Tiles of which all rows see all, or one of which numSlots hold keys and values. Rows may see fewer: their scores of the
     * others are not looked at, and a weight of 0 adds nothing to a sum, since no sum is ever -0.
     */
    private void foldByProducts(
            int layer,
            int tile,
            int numTiles,
            boolean areWhole,
            int numSlots,
            int kvHead,
            int firstToken,
            int numTokens,
            int[] table) {
        int[] kv = pool.pairs(layer);
        for (int t = 0; t < numTiles; t++) {
            int numBlocks = findBlocks(tile + t, numSlots, kvHead, table);
            products.putKeys(t, kv, keyOffsets, numBlocks);
        }
        if (!areWhole) {
            count(tile, firstToken, numTokens);
        }
        int end = numTokens * groupSize;
        int width = numTiles * Kernels.TILE_SIZE;
        int numParts = (end - firstToken * groupSize) * width / CHUNK_ELEMENTS + numTiles; // of what is read ahead
        int numDone;
        for (int row = firstToken * groupSize; row < end; row += numDone) {
            numDone = products.multiplyKeys(numTiles, row, end - row);
            foldScores(areWhole, numTiles, row, numDone, numParts);
        }
        for (int t = 0; t < numTiles; t++) {
            findBlocks(tile + t, numSlots, kvHead, table);
            products.putValues(kv, valueOffsets, numSlots);
            readAhead.advance(numParts);
            products.rescale(factors[t], firstToken * groupSize, end - firstToken * groupSize);
            for (int row = firstToken * groupSize; row < end; row += numDone) {
                numDone = products.multiplyValues(t, row, end - row);
            }
            products.beginAccumulators();
        }
    }

    private void foldScores(boolean areWhole, int numTiles, int firstRow, int numRows, int numParts) {
        int width = numTiles * Kernels.TILE_SIZE;
        int most = CHUNK_ELEMENTS / width;
        for (int r = 0; r < numRows; r += most) {
            int rows = Math.min(most, numRows - r);
            readAhead.advance(numParts);
            products.read(r * width, scores, rows * width);
            if (areWhole) {
                kernels.foldTilesToBfloat16(scores, numTiles, firstRow + r, rows, maxima, sums, factors);
            } else {
                kernels.foldScoresToBfloat16(scores, 0, width, firstRow + r, rows, counts, maxima, sums, factors[0]);
            }
            products.putWeights(numTiles, firstRow + r, rows, scores);
        }
    }

    /** Folds a tile by the kernels, for some neighbouring tokens of the piece. */
    private void foldTile(int layer, int tile, int kvHead, int from, int endToken, int[] table) {
        int firstToken = firstToken(tile, from);
        int longest = count(tile, firstToken, endToken);
        int numBlocks = findBlocks(tile, longest, kvHead, table);
        int row = firstToken * groupSize;
        int rows = (endToken - firstToken) * groupSize;
        if (pool.isInt8()) {
            widen(layer, tile, kvHead, numBlocks, table);
            foldFloats(wideKeyValues, row, rows, numBlocks);
        } else if (pool.isPaired()) {
            foldPairs(pool.pairs(layer), row, rows, numBlocks);
        } else {
            foldFloats(pool.floats(layer), row, rows, numBlocks);
        }
    }

    private void foldPairs(int[] kv, int row, int rows, int numBlocks) {
        int tile = Kernels.TILE_SIZE;
        kernels.scores(queries, row, rows, headDim, kv, keyOffsets, numBlocks, scores);
        kernels.foldScoresToBfloat16(scores, row * tile, tile, row, rows, counts, maxima, sums, factors[0]);
        kernels.accumulate(scores, row, rows, counts, headDim, kv, valueOffsets, tileSums);
        kernels.foldTileSums(tileSums, row * headDim, row, rows, factors[0], headDim, accumulators);
    }

    private void foldFloats(float[] kv, int row, int rows, int numBlocks) {
        kernels.scores(queries, row, rows, headDim, kv, keyOffsets, Kernels.BLOCK_SIZE, numBlocks, scores);
        kernels.foldScores(scores, row, rows, counts, maxima, sums, factors[0]);
        kernels.accumulate(scores, row, rows, counts, factors[0], headDim, kv, valueOffsets, accumulators);
    }

    /** Widens a tile of 8-bit numbers, once for all rows of the piece. */
    private void widen(int layer, int tile, int kvHead, int numBlocks, int[] table) {
        int elements = Kernels.BLOCK_SIZE * headDim;
        for (int b = 0; b < numBlocks; b++) {
            keyOffsets[b] = 2 * b * elements;
            valueOffsets[b] = keyOffsets[b] + elements;
            int block = table[tile * BLOCKS_PER_TILE + b];
            pool.readInt8(layer, block, kvHead, wideKeyValues, keyOffsets[b], wideKeyValues, valueOffsets[b]);
        }
    }

    /** Ends the folds of a piece whose tokens stand here from one on. */
    private void finish(
            AttentionPlan plan, int piece, int firstToken, int numTokens, int head, ActivationBuffer output) {
        int firstRow = firstToken * groupSize;
        for (int row = firstRow; row < firstRow + numTokens * groupSize; row++) {
            kernels.scale(accumulators, row * headDim, 1f / kernels.sumLanes(sums, row), headDim);
        }
        // Whoever ends folds has one sequence's rows only: they are neighbours.
        int count = groupSize * headDim;
        output.putRows(
                plan.row(piece, 0), numTokens, head * headDim, accumulators, firstRow * headDim, count, halfScratch);
    }

    @Override
    public void close() {
        if (products != null) {
            products.close();
        }
    }
}
