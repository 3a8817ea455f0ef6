package io.millrace.backend.cpu;

import io.millrace.backend.BatchInput;
import io.millrace.kernels.Kernels;
import java.util.Arrays;

/**
 * One step's attention cut into pieces of work, the same for every layer. A piece is a run of KV tiles that some query
 * tokens all see through one block table, times each KV head. A sequence of its own is one piece per few tokens, over all
 * of its tiles. Sequences whose tables begin with the same blocks are taken together over those (cascade): their pieces
 * at level 0 fold the shared tiles for all of them, and pieces of later levels carry on from the folds' stored state. A short
 * piece that carries on from a single one may follow it: whoever has folded that one carries on at once, from state that is
 * still in its cache. Each token still folds its tiles in ascending order from position 0, so sharing does not show in the
 * bits. Only rows of the tokens asked for are planned; a sequence with none of them is left out.
 *
 * <p>Built by the engine thread, then read by the compute threads. Reuses its arrays.
 */
final class AttentionPlan {
    /** Most query rows (tokens × heads of a group) of a piece: enough to pay for moving a tile, still in cache. */
    private static final int MAX_ROWS = 192;

    /** The same where larger pieces would be too few to keep all threads busy. */
    private static final int MAX_ROWS_OF_FEW = 64;

    private static final int MANY_PIECES = 4;

    /** Sequences with more new tokens than this use their keys often enough by themselves. */
    private static final int MAX_SHARING_TOKENS = 16;

    /** Units of at most so many rows are short: several go to a task. */
    private static final int MAX_ROWS_OF_SHORT = 16;

    private static final int MAX_UNITS_PER_TASK = 8;

    /** Of what is left of a level, a task is at most this part of a thread's share. */
    private static final int TASKS_PER_SHARE = 4;

    /** Pieces follow where leaders times KV heads are at least so many times the threads: these end together all the same. */
    private static final int MIN_LEADERS_PER_THREAD = 4;

    /** Of longer pieces, what following saves is a small part; they balance the threads better by themselves. */
    private static final int MAX_TILES_OF_FOLLOWER = 4;

    private static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;

    private final int numKvHeads;
    private final int numHeadsPerGroup;
    private final int numThreads;
    private final int maxTokensPerPiece;
    private final int maxTokensPerPieceOfFew;
    private final boolean sharesReads;
    private BatchInput input;
    private TokenRows tokenRows;
    private int numPieces;
    private int numLevels;
    private int[] level = new int[64];
    private int[] sequence = new int[64];
    private int[] firstRow = new int[64];
    private int[] numRows = new int[64];
    private int[] firstTile = new int[64];
    private int[] endTile = new int[64];
    private boolean[] isLast = new boolean[64];
    private int[] firstFollower = new int[64];
    private int[] nextFollower = new int[64];
    private int[] rows = new int[256];
    private int numPlanRows;
    private int[] stateSlot = new int[256];
    private int[] sharedPiece = new int[256]; // of a row: the last one that shares tiles, its leader if it is led
    private int[] sharedIndex = new int[256]; // where the row stands in it
    private int numStateSlots;
    private int[] sharing = new int[64];
    private int numSharing;
    private int[] order = new int[64];
    private int[] levelStart = new int[8];
    private int[] taskStart = new int[8]; // where a level's tasks stand in the next array
    private int[] taskUnits = new int[64]; // the first unit of each task, then the level's number of units
    private long numBlockReads;

    /**
     * @param numThreads that the work will be shared out to
     * @param sharesReads false plans every sequence by itself, as if nothing were shared; for measuring what sharing
     *     saves
     */
    AttentionPlan(int numKvHeads, int numHeadsPerGroup, int numThreads, boolean sharesReads) {
        this.numKvHeads = numKvHeads;
        this.numHeadsPerGroup = numHeadsPerGroup;
        this.numThreads = numThreads;
        this.sharesReads = sharesReads;
        maxTokensPerPiece = Math.max(1, Math.min(Kernels.TILE_SIZE, MAX_ROWS / numHeadsPerGroup));
        maxTokensPerPieceOfFew = Math.max(1, Math.min(maxTokensPerPiece, MAX_ROWS_OF_FEW / numHeadsPerGroup));
    }

    int maxTokensPerPiece() {
        return maxTokensPerPiece;
    }

    /** Plans the rows of a batch's tokens; both are read until the next build. */
    void build(BatchInput batch, TokenRows wanted) {
        input = batch;
        tokenRows = wanted;
        numPieces = 0;
        numLevels = 0;
        numPlanRows = 0;
        numStateSlots = 0;
        numSharing = 0;
        numBlockReads = 0;
        if (stateSlot.length < wanted.numRows()) {
            stateSlot = new int[wanted.numRows() * 2];
            sharedPiece = new int[wanted.numRows() * 2];
            sharedIndex = new int[wanted.numRows() * 2];
        }
        Arrays.fill(stateSlot, 0, wanted.numRows(), -1);
        for (int s = 0; s < batch.numSequences(); s++) {
            if (wanted.numRows(s) == 0) {
                continue;
            }
            if (sharesReads && numSharableTiles(s) > 0 && wanted.numRows(s) <= MAX_SHARING_TOKENS) {
                sharing = grown(sharing, numSharing);
                sharing[numSharing++] = s;
            } else {
                addSequence(s, 0, 0);
            }
        }
        split(0, numSharing, 0, 0);
        sortByLevel();
        if (follow()) {
            sortByLevel();
        }
        cutTasks();
    }

    /** Tiles that every row of a sequence sees in full. */
    private int numSharableTiles(int s) {
        return (position(tokenRows.firstRow(s)) + 1) / Kernels.TILE_SIZE;
    }

    private int position(int row) {
        return input.positions()[tokenRows.token(row)];
    }

    /** Plans sharing[from … to), whose members' tables agree below the tile. */
    private void split(int from, int to, int tile, int atLevel) {
        sortByTile(from, to, tile);
        int start = from;
        while (start < to) {
            int end = start + 1;
            while (end < to && compare(sharing[start], sharing[end], tile) == 0) {
                end++;
            }
            if (end - start == 1) {
                addSequence(sharing[start], tile, atLevel);
            } else if (numSharableTiles(sharing[start]) <= tile) {
                for (int i = start; i < end; i++) {
                    addSequence(sharing[i], tile, atLevel);
                }
            } else {
                int common = tile + 1;
                while (allAgree(start, end, common)) {
                    common++;
                }
                addShared(start, end, tile, common, atLevel);
                split(start, end, common, atLevel + 1);
            }
            start = end;
        }
    }

    private boolean allAgree(int from, int to, int tile) {
        if (numSharableTiles(sharing[from]) <= tile) {
            return false;
        }
        for (int i = from + 1; i < to; i++) {
            if (compare(sharing[from], sharing[i], tile) != 0) {
                return false;
            }
        }
        return true;
    }

    /** Orders sequences by their blocks of a tile; those that cannot share it are alike, and come first. */
    private int compare(int a, int b, int tile) {
        boolean aShares = numSharableTiles(a) > tile;
        boolean bShares = numSharableTiles(b) > tile;
        if (!aShares || !bShares) {
            return Boolean.compare(aShares, bShares);
        }
        int first = tile * BLOCKS_PER_TILE;
        int[] tableA = input.blockTables()[a];
        int[] tableB = input.blockTables()[b];
        for (int i = first; i < first + BLOCKS_PER_TILE; i++) {
            if (tableA[i] != tableB[i]) {
                return Integer.compare(tableA[i], tableB[i]);
            }
        }
        return 0;
    }

    /** Insertion sort: small, nearly in order from step to step, and allocates nothing. */
    private void sortByTile(int from, int to, int tile) {
        for (int i = from + 1; i < to; i++) {
            int moving = sharing[i];
            int j = i;
            while (j > from && compare(sharing[j - 1], moving, tile) > 0) {
                sharing[j] = sharing[j - 1];
                j--;
            }
            sharing[j] = moving;
        }
    }

    private void addShared(int from, int to, int startTile, int stopTile, int atLevel) {
        int start = numPlanRows;
        for (int i = from; i < to; i++) {
            addRows(sharing[i]);
        }
        for (int i = start; i < numPlanRows; i++) {
            if (stateSlot[rows[i]] < 0) {
                stateSlot[rows[i]] = numStateSlots++;
            }
        }
        int piece = numPieces;
        addPieces(start, sharing[from], startTile, stopTile, false, atLevel);
        for (; piece < numPieces; piece++) {
            for (int i = 0; i < numRows[piece]; i++) {
                sharedPiece[row(piece, i)] = piece;
                sharedIndex[row(piece, i)] = i;
            }
        }
    }

    private void addSequence(int s, int startTile, int atLevel) {
        int start = numPlanRows;
        addRows(s);
        int stopTile = (input.contextLengths()[s] + Kernels.TILE_SIZE - 1) / Kernels.TILE_SIZE;
        addPieces(start, s, startTile, stopTile, true, atLevel);
    }

    private void addRows(int s) {
        for (int row = tokenRows.firstRow(s); row < tokenRows.firstRow(s + 1); row++) {
            rows = grown(rows, numPlanRows);
            rows[numPlanRows++] = row;
        }
    }

    private void addPieces(int start, int s, int startTile, int stopTile, boolean last, int atLevel) {
        boolean areMany = last
                && numPlanRows - start > maxTokensPerPieceOfFew
                && tokenRows.numRows() >= MANY_PIECES * maxTokensPerPiece;
        int most = areMany ? maxTokensPerPiece : maxTokensPerPieceOfFew;
        int count;
        for (int row = start; row < numPlanRows; row += count) {
            growPieces();
            int piece = numPieces++;
            count = Math.min(most, numPlanRows - row);
            if (areMany) {
                // To the end of a tile, so that a piece meets only one that it sees in part.
                int untilTile = Kernels.TILE_SIZE - position(rows[row]) % Kernels.TILE_SIZE;
                count = Math.min(count, untilTile);
            }
            level[piece] = atLevel;
            sequence[piece] = s;
            firstRow[piece] = row;
            numRows[piece] = count;
            firstTile[piece] = startTile;
            int lastPosition = position(rows[row + count - 1]);
            endTile[piece] = last ? Math.min(stopTile, lastPosition / Kernels.TILE_SIZE + 1) : stopTile;
            isLast[piece] = last;
            firstFollower[piece] = -1;
            int endBlock = last ? lastPosition / Kernels.BLOCK_SIZE + 1 : stopTile * BLOCKS_PER_TILE;
            numBlockReads += endBlock - startTile * BLOCKS_PER_TILE;
        }
        numLevels = Math.max(numLevels, atLevel + 1);
    }

    private void sortByLevel() {
        order = Arrays.copyOf(order, Math.max(order.length, numPieces));
        levelStart = Arrays.copyOf(levelStart, Math.max(levelStart.length, numLevels + 1));
        int at = 0;
        for (int l = 0; l < numLevels; l++) {
            levelStart[l] = at;
            // The last pieces of a long prompt are its longest: they go first, so that the threads end together.
            for (int piece = numPieces - 1; piece >= 0; piece--) {
                if (level[piece] == l) {
                    order[at++] = piece;
                }
            }
        }
        levelStart[numLevels] = at;
    }

    /** Lets pieces follow others, which takes them out of their levels; returns whether any does. */
    private boolean follow() {
        boolean anyFollows = false;
        for (int piece = numPieces - 1; piece >= 0; piece--) {
            if (isLast[piece] && firstTile[piece] > 0 && mayFollow(piece)) {
                int leader = sharedPiece[row(piece, 0)];
                nextFollower[piece] = firstFollower[leader];
                firstFollower[leader] = piece;
                level[piece] = -1;
                anyFollows = true;
            }
        }
        return anyFollows;
    }

    private boolean mayFollow(int piece) {
        int lastRow = row(piece, numRows[piece] - 1);
        int leader = sharedPiece[row(piece, 0)];
        return leader == sharedPiece[lastRow]
                && numRows[piece] * numHeadsPerGroup <= MAX_ROWS_OF_SHORT
                && endTile[piece] - firstTile[piece] <= MAX_TILES_OF_FOLLOWER
                && numPieces(level[leader]) * numKvHeads >= MIN_LEADERS_PER_THREAD * numThreads;
    }

    /**
     * Short units go several to a task, so that a thread knows what it reads next; fewer towards a level's end, so that the
     * threads end together.
     */
    private void cutTasks() {
        taskStart = Arrays.copyOf(taskStart, Math.max(taskStart.length, numLevels + 1));
        int count = 0;
        for (int l = 0; l < numLevels; l++) {
            taskStart[l] = count;
            int numUnits = numPieces(l) * numKvHeads;
            int most = areShort(l) ? MAX_UNITS_PER_TASK : 1;
            int unit = 0;
            while (unit < numUnits) {
                taskUnits = grown(taskUnits, count + 1);
                taskUnits[count++] = unit;
                int part = (numUnits - unit) / (TASKS_PER_SHARE * numThreads);
                unit += Math.max(1, Math.min(most, part));
            }
            taskUnits[count++] = numUnits;
        }
        taskStart[numLevels] = count;
    }

    private boolean areShort(int atLevel) {
        for (int i = 0; i < numPieces(atLevel); i++) {
            if (numRows[piece(atLevel, i)] * numHeadsPerGroup > MAX_ROWS_OF_SHORT) {
                return false;
            }
        }
        return true;
    }

    private void growPieces() {
        if (numPieces == level.length) {
            int capacity = 2 * numPieces;
            level = Arrays.copyOf(level, capacity);
            sequence = Arrays.copyOf(sequence, capacity);
            firstRow = Arrays.copyOf(firstRow, capacity);
            numRows = Arrays.copyOf(numRows, capacity);
            firstTile = Arrays.copyOf(firstTile, capacity);
            endTile = Arrays.copyOf(endTile, capacity);
            isLast = Arrays.copyOf(isLast, capacity);
            firstFollower = Arrays.copyOf(firstFollower, capacity);
            nextFollower = Arrays.copyOf(nextFollower, capacity);
        }
    }

    private static int[] grown(int[] array, int count) {
        return count < array.length ? array : Arrays.copyOf(array, 2 * array.length);
    }

    /** That the work is shared out to. */
    int numThreads() {
        return numThreads;
    }

    /** Pieces of a level may run in any order, those of the next one after them. Followers are of none. */
    int numLevels() {
        return numLevels;
    }

    int numPieces(int atLevel) {
        return levelStart[atLevel + 1] - levelStart[atLevel];
    }

    /** How many tasks of neighbouring units a level has. Its unit u is piece u / numKvHeads for KV head u % numKvHeads. */
    int numTasks(int atLevel) {
        return taskStart[atLevel + 1] - taskStart[atLevel] - 1;
    }

    /** Where a task's units begin; where those of the one before it end. */
    int firstUnit(int atLevel, int task) {
        return taskUnits[taskStart[atLevel] + task];
    }

    int piece(int atLevel, int index) {
        return order[levelStart[atLevel] + index];
    }

    int firstTile(int piece) {
        return firstTile[piece];
    }

    int endTile(int piece) {
        return endTile[piece];
    }

    /** Whether the piece ends its tokens' folds; else it leaves their state for a later one. */
    boolean isLast(int piece) {
        return isLast[piece];
    }

    /** The first of the pieces, all last ones, that carry on where this one ends; -1 if there is none. */
    int firstFollower(int piece) {
        return firstFollower[piece];
    }

    /** The next piece that follows the same one; -1 if there is none. */
    int nextFollower(int follower) {
        return nextFollower[follower];
    }

    /** Which of its leader's tokens is a follower's first. */
    int indexInLeader(int follower) {
        return sharedIndex[row(follower, 0)];
    }

    /** Tokens of the piece: a row of {@link TokenRows} each. */
    int numTokens(int piece) {
        return numRows[piece];
    }

    /** The row of the piece's i-th token; positions ascend within a sequence. */
    int row(int piece, int i) {
        return rows[firstRow[piece] + i];
    }

    /** The piece's i-th token, as an index into the batch. */
    int token(int piece, int i) {
        return tokenRows.token(row(piece, i));
    }

    int[] blockTable(int piece) {
        return input.blockTables()[sequence[piece]];
    }

    /** Positions of the piece's sequence whose keys and values are there once the step's are stored. */
    int contextLength(int piece) {
        return input.contextLengths()[sequence[piece]];
    }

    /** Where the blocks of the piece's sequence end that hold keys once the step's are stored. */
    int endBlock(int piece) {
        return (contextLength(piece) + Kernels.BLOCK_SIZE - 1) / Kernels.BLOCK_SIZE;
    }

    /** Where a row's state is kept between levels; -1 for rows of one piece only. */
    int stateSlot(int row) {
        return stateSlot[row];
    }

    int numStateSlots() {
        return numStateSlots;
    }

    /** KV blocks that the attention of one layer reads, each counted as often as it is read. */
    long numBlockReads() {
        return numBlockReads;
    }
}
