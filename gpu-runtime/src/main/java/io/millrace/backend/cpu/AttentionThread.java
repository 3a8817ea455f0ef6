package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;
import java.util.Arrays;

/**
 * One compute thread's part in attention: folds the tiles of a piece for all of its rows together, so that a tile's keys
 * and values come from memory once for them. Of bfloat16 numbers by products of the matrix library where rows are many, else
 * by the kernels: the bits are the same. Of float32 numbers the kernels are as fast, which need not copy tiles.
 */
final class AttentionThread implements AutoCloseable {
    private static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;

    private final Kernels kernels;
    private final AttentionState state;
    private final AttentionRows rows;
    private final AttentionGroups groups; // null where the kernels do all
    private final int headDim;
    private final int numKvHeads;
    private final int groupSize;
    private final int queryWidth;
    private final boolean[] isFollowed; // the piece's tokens whose folds a follower has ended
    private final ReadAhead readAhead;
    private int comingPiece; // that this or another thread will run about next, or -1
    private int comingKvHead;
    private final short[] halfScratch;

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
        this.state = state;
        this.headDim = headDim;
        this.numKvHeads = numKvHeads;
        this.groupSize = groupSize;
        this.queryWidth = queryWidth;
        KvTiles tiles = KvTiles.of(pool, kernels, headDim);
        rows = new AttentionRows(kernels, tiles, headDim, groupSize, maxTokensPerPiece, AttentionGroups.CHUNK_ELEMENTS);
        readAhead = new ReadAhead(pool);
        groups = pool.isPaired() && shapes.areUsable()
                ? new AttentionGroups(kernels, pool, tiles, rows, shapes, readAhead, headDim, groupSize)
                : null;
        isFollowed = new boolean[maxTokensPerPiece];
        halfScratch = new short[maxTokensPerPiece * groupSize * headDim];
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
            if (!isLast) {
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
        boolean byProducts = groups != null && numTokens * groupSize >= AttentionProducts.MIN_ROWS;
        gather(plan, piece, numTokens, head, allQueries, positions, byProducts);
        if (byProducts) {
            groups.fold(plan, piece, layer, kvHead);
        } else {
            foldTiles(plan, piece, layer, kvHead, 0, numTokens);
        }
        if (plan.isLast(piece)) {
            finish(plan, piece, 0, numTokens, head, output);
        } else {
            runFollowers(plan, piece, layer, kvHead, output);
            save(plan, piece, numTokens, head);
        }
    }

    /** Folds all tiles of a piece by the kernels, for its tokens, which stand here from one on. */
    private void foldTiles(AttentionPlan plan, int piece, int layer, int kvHead, int firstToken, int endToken) {
        int[] table = plan.blockTable(piece);
        int firstTile = plan.firstTile(piece);
        int endTile = plan.endTile(piece);
        for (int tile = firstTile; tile < endTile; tile++) {
            rows.fold(layer, tile, kvHead, firstToken, endToken, table);
        }
        if (plan.isLast(piece)) {
            rows.close(firstToken, endToken, firstTile - 1, endTile); // some may see no more than their leader did
        }
    }

    /** Carries on with the piece's rows as they stand. */
    private void runFollowers(AttentionPlan plan, int piece, int layer, int kvHead, ActivationBuffer output) {
        Arrays.fill(isFollowed, 0, plan.numTokens(piece), false);
        readAhead.begin(layer);
        if (comingPiece >= 0) {
            int tile = plan.firstTile(comingPiece);
            int together = Math.min(Kernels.GROUP_TILES, plan.endTile(comingPiece) - tile);
            readAhead.addTiles(plan, comingPiece, tile, together, comingKvHead);
        }
        int next;
        for (int follower = plan.firstFollower(piece); follower >= 0; follower = next) {
            next = plan.nextFollower(follower);
            readAhead.advance(plan.numTokens(piece));
            int firstToken = plan.indexInLeader(follower);
            int endToken = firstToken + plan.numTokens(follower);
            foldTiles(plan, follower, layer, kvHead, firstToken, endToken);
            finish(plan, follower, firstToken, plan.numTokens(follower), kvHead * groupSize, output);
            Arrays.fill(isFollowed, firstToken, endToken, true);
        }
    }

    private void save(AttentionPlan plan, int piece, int numTokens, int head) {
        boolean isOpen = !AttentionRows.beginsGroup(plan.endTile(piece));
        for (int i = 0; i < numTokens; i++) {
            if (!isFollowed[i]) {
                int slot = plan.stateSlot(plan.row(piece, i));
                state.save(slot, head, groupSize, rows, i * groupSize, isOpen);
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
            rows.limits[i] = positions[token] + 1;
            int from = token * queryWidth + head * headDim;
            System.arraycopy(allQueries, from, rows.queries, i * rowElements, rowElements);
        }
        if (plan.firstTile(piece) == 0) {
            int numRows = numTokens * groupSize;
            Arrays.fill(rows.maxima, 0, numRows, Float.NEGATIVE_INFINITY);
            Arrays.fill(rows.sums, 0, numRows * Kernels.LANES, 0f);
            if (!byProducts) { // products begin their own
                Arrays.fill(rows.accumulators, 0, numRows * headDim, 0f);
            }
        } else {
            boolean isOpen = !AttentionRows.beginsGroup(plan.firstTile(piece));
            for (int i = 0; i < numTokens; i++) {
                int slot = plan.stateSlot(plan.row(piece, i));
                state.load(slot, head, groupSize, rows, i * groupSize, isOpen);
            }
        }
    }

    /** Ends the folds of a piece whose tokens stand here from one on. */
    private void finish(
            AttentionPlan plan, int piece, int firstToken, int numTokens, int head, ActivationBuffer output) {
        int firstRow = firstToken * groupSize;
        for (int row = firstRow; row < firstRow + numTokens * groupSize; row++) {
            kernels.scale(rows.accumulators, row * headDim, 1f / kernels.sumLanes(rows.sums, row), headDim);
        }
        // Whoever ends folds has one sequence's rows only: they are neighbours.
        int count = groupSize * headDim;
        int from = firstRow * headDim;
        output.putRows(plan.row(piece, 0), numTokens, head * headDim, rows.accumulators, from, count, halfScratch);
    }

    @Override
    public void close() {
        if (groups != null) {
            groups.close();
        }
    }
}
