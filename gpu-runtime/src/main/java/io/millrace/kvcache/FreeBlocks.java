package io.millrace.kvcache;

/**
 * The free blocks, and which of them is taken next. Attention reads a sequence in tiles of several blocks, and reads faster where
 * a tile's blocks are neighbours, so blocks come in runs, aligned: a tile begins in a wholly free run, the run's other blocks are
 * reserved for it, and it takes them in turn. Runs without content go first, then those of little content, then the others, each
 * kind by its least recent use. Single blocks are taken where no run is wholly free, or in the middle of a tile: those without
 * content first, then the least recently used. All of that is a preference: a reserved block is free, only the last to be taken.
 *
 * <p>With runs the prefix cache forgets a run at a time, even where single blocks without content are left. What it has less than
 * with single blocks are the ends of tables' last runs, fewer blocks than a run for each text it remembers.
 *
 * <p>Every method is O(blocks of a run) and allocates nothing, {@link #order} and {@link #checkIntegrity} apart.
 */
final class FreeBlocks {
    static final int NONE = FreeList.NONE;

    /** A run of which at most one block in so many has content is taken before others: four blocks for one forgotten. */
    private static final int FEW = 4;

    private final int numBlocks;
    private final int blocksPerRun;

    /** No content that counts: the last freed first, those of empty runs behind the others. */
    private final FreeList empty;

    /** With content: the least recently used first. */
    private final FreeList cached;

    /** No content that counts, behind a block that a table may grow from. */
    private final FreeList reserved;

    /** Runs whose blocks are all free, without content: the last to become so first. */
    private final FreeList emptyRuns;

    /** Runs whose blocks are all free, with little content: in the order in which they became free. */
    private final FreeList fewRuns;

    /** Runs whose blocks are all free, with more content: in the order in which they became free. */
    private final FreeList cachedRuns;

    private final int[] numFreeInRun;

    /**
     * All blocks are free and empty.
     *
     * @param blocksPerRun 1 for no preference
     */
    FreeBlocks(int numBlocks, int blocksPerRun) {
        this.numBlocks = numBlocks;
        this.blocksPerRun = blocksPerRun;
        int numRuns = blocksPerRun == 1 ? 0 : numBlocks / blocksPerRun; // what is left over is in no run
        empty = new FreeList(numBlocks);
        cached = new FreeList(numBlocks);
        reserved = new FreeList(numBlocks);
        emptyRuns = new FreeList(numRuns);
        fewRuns = new FreeList(numRuns);
        cachedRuns = new FreeList(numRuns);
        numFreeInRun = new int[numRuns];
        for (int block = numRuns * blocksPerRun; block < numBlocks; block++) {
            empty.addLast(block);
        }
        for (int run = 0; run < numRuns; run++) {
            numFreeInRun[run] = blocksPerRun;
            emptyRuns.addLast(run);
            for (int block = run * blocksPerRun; block < (run + 1) * blocksPerRun; block++) {
                empty.addLast(block);
            }
        }
    }

    int size() {
        return empty.size() + cached.size() + reserved.size();
    }

    boolean contains(int block) {
        return empty.contains(block) || cached.contains(block) || reserved.contains(block);
    }

    /**
     * Takes a block for a table, and reserves its neighbours for the rest of the tile.
     *
     * @param previous the table's block before, or NONE
     * @param indexInTile how many blocks of the tile are before it
     * @return NONE if there is no free block
     */
    int take(int previous, int indexInTile) {
        int block = indexInTile == 0 ? NONE : neighbour(previous);
        if (block == NONE) {
            block = numWholeRuns() > 0 && (indexInTile == 0 || empty.size() == 0) ? beginRun() : next();
        }
        if (block != NONE) {
            remove(block);
            reserveBehind(block, indexInTile);
        }
        return block;
    }

    private int numWholeRuns() {
        return emptyRuns.size() + fewRuns.size() + cachedRuns.size();
    }

    private int neighbour(int previous) {
        int block = previous + 1;
        return block < endOfRun(previous) && (empty.contains(block) || reserved.contains(block)) ? block : NONE;
    }

    /** The first block of a whole run whose content is given up: what follows in a text is lost with what was before. */
    private int beginRun() {
        FreeList runs = emptyRuns.size() > 0 ? emptyRuns : fewRuns.size() > 0 ? fewRuns : cachedRuns;
        int first = runs.first() * blocksPerRun;
        for (int block = first + blocksPerRun - 1; block >= first; block--) {
            list(block).remove(block);
            empty.addFirst(block);
        }
        return first;
    }

    private int next() {
        if (empty.size() > 0) {
            return empty.first();
        }
        return cached.size() > 0 ? cached.first() : reserved.last(); // the end of a run: the rest keeps its neighbours
    }

    /** Takes a block out of the free ones for the sake of its content. */
    void remove(int block) {
        list(block).remove(block);
        int run = block / blocksPerRun;
        if (run < numFreeInRun.length && numFreeInRun[run]-- == blocksPerRun) {
            listOfRun(run).remove(run);
        }
    }

    /** Takes in a block that was freed. */
    void add(int block, boolean hasContent) {
        endReservationsBehind(block);
        if (hasContent) {
            cached.addLast(block);
        } else {
            empty.addFirst(block);
        }
        int run = block / blocksPerRun;
        if (run < numFreeInRun.length && ++numFreeInRun[run] == blocksPerRun) {
            addWhole(run);
        }
    }

    /**
     * Keeps the empty neighbours behind a table's last block for the rest of its tile.
     *
     * @param indexInTile how many blocks of the tile are before the last one
     */
    void reserveBehind(int block, int indexInTile) {
        int end = Math.min(endOfRun(block), block + blocksPerRun - indexInTile);
        for (int behind = block + 1; behind < end; behind++) {
            if (empty.contains(behind)) {
                empty.remove(behind);
                reserved.addLast(behind);
            } else if (!reserved.contains(behind)) {
                break;
            }
        }
    }

    /** Reservations stand behind a held block, or behind another reservation. */
    private void endReservationsBehind(int block) {
        int end = block + 1;
        while (end < endOfRun(block) && reserved.contains(end)) {
            end++;
        }
        for (int behind = end - 1; behind > block; behind--) {
            reserved.remove(behind);
            empty.addFirst(behind);
        }
    }

    private void addWhole(int run) {
        int first = run * blocksPerRun;
        int numCached = 0;
        for (int block = first; block < first + blocksPerRun; block++) {
            numCached += cached.contains(block) ? 1 : 0;
        }
        if (numCached * FEW > blocksPerRun) {
            cachedRuns.addLast(run);
        } else if (numCached > 0) {
            fewRuns.addLast(run);
        } else {
            emptyRuns.addFirst(run);
            // A single block is better taken from elsewhere.
            for (int block = first; block < first + blocksPerRun; block++) {
                empty.remove(block);
                empty.addLast(block);
            }
        }
    }

    private int endOfRun(int block) {
        return Math.min(numBlocks, (block / blocksPerRun + 1) * blocksPerRun);
    }

    private FreeList listOfRun(int run) {
        if (emptyRuns.contains(run)) {
            return emptyRuns;
        }
        return fewRuns.contains(run) ? fewRuns : cachedRuns;
    }

    private FreeList list(int block) {
        if (empty.contains(block)) {
            return empty;
        }
        return cached.contains(block) ? cached : reserved;
    }

    /** The free blocks in the order in which they will be taken where no run is begun or continued. */
    int[] order() {
        int[] order = new int[size()];
        int count = 0;
        for (int block = empty.first(); block != NONE; block = empty.after(block)) {
            order[count++] = block;
        }
        for (int block = cached.first(); block != NONE; block = cached.after(block)) {
            order[count++] = block;
        }
        for (int block = reserved.last(); block != NONE; block = reserved.before(block)) {
            order[count++] = block;
        }
        return order;
    }

    /** Throws unless lists, runs and reservations agree. */
    void checkIntegrity() {
        int[] free = new int[numBlocks];
        for (int block : order()) {
            free[block]++;
        }
        for (int block = 0; block < numBlocks; block++) {
            if (free[block] != (contains(block) ? 1 : 0)) {
                throw new IllegalStateException("block " + block + " is " + free[block] + " times in the free lists");
            }
            boolean isFirst = block % blocksPerRun == 0;
            if (reserved.contains(block) && (isFirst || free[block - 1] == 1 && !reserved.contains(block - 1))) {
                throw new IllegalStateException("block " + block + " is reserved for no table");
            }
        }
        int numWhole = 0;
        for (int run = 0; run < numFreeInRun.length; run++) {
            int numFree = 0;
            int numEmpty = 0;
            int numCached = 0;
            for (int block = run * blocksPerRun; block < (run + 1) * blocksPerRun; block++) {
                numFree += free[block];
                numEmpty += empty.contains(block) ? 1 : 0;
                numCached += cached.contains(block) ? 1 : 0;
            }
            boolean isWhole = numFree == blocksPerRun;
            boolean isEmpty = numEmpty == blocksPerRun;
            boolean hasFew = numCached > 0 && numCached * FEW <= blocksPerRun;
            numWhole += isWhole ? 1 : 0;
            if (numFree != numFreeInRun[run]
                    || emptyRuns.contains(run) != isEmpty
                    || fewRuns.contains(run) != (isWhole && hasFew)
                    || cachedRuns.contains(run) != (isWhole && !isEmpty && !hasFew)) {
                throw new IllegalStateException("run " + run + " has " + numFree + " free blocks, its count says "
                        + numFreeInRun[run] + ", " + numEmpty + " are empty and " + numCached + " cached; it is "
                        + (emptyRuns.contains(run) ? "" : "not ") + "listed as empty, "
                        + (fewRuns.contains(run) ? "" : "not ") + "as one of few, "
                        + (cachedRuns.contains(run) ? "" : "not ") + "as cached");
            }
        }
        if (numWhole != numWholeRuns()) {
            throw new IllegalStateException(numWhole + " runs are wholly free, the lists count " + numWholeRuns());
        }
    }
}
