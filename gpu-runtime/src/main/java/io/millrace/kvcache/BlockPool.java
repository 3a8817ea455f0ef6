package io.millrace.kvcache;

import java.util.Arrays;

/** All blocks by number: reference counts, how many of each block's slots are written, and which are free. */
final class BlockPool {
    static final int NONE = FreeBlocks.NONE;

    private final int[] refCounts;
    private final int[] numFilled;
    private final FreeBlocks free;
    private long numUsedSlots;

    BlockPool(int numBlocks, int blocksPerRun) {
        refCounts = new int[numBlocks];
        numFilled = new int[numBlocks];
        free = new FreeBlocks(numBlocks, blocksPerRun);
    }

    int numBlocks() {
        return refCounts.length;
    }

    int numFree() {
        return free.size();
    }

    long numUsedSlots() {
        return numUsedSlots;
    }

    int refCount(int block) {
        return refCounts[block];
    }

    int numFilled(int block) {
        return numFilled[block];
    }

    /**
     * Takes a free block, empty, with one reference.
     *
     * @param previous the block before it in the table that takes it, or NONE
     * @param indexInTile how many blocks of its tile are before it
     */
    int take(int previous, int indexInTile) {
        int block = free.take(previous, indexInTile);
        if (block == NONE) {
            throw new IllegalStateException("no free block of " + numBlocks() + "; the caller must look first");
        }
        refCounts[block] = 1;
        numFilled[block] = 0;
        return block;
    }

    /** Keeps the free neighbours behind a table's last block for it, as {@link #take} does. */
    void reserveBehind(int block, int indexInTile) {
        free.reserveBehind(block, indexInTile);
    }

    /** Adds a reference; takes the block out of the free ones if it was there. */
    void retain(int block) {
        if (refCounts[block]++ == 0) {
            free.remove(block);
            numUsedSlots += numFilled[block];
        }
    }

    /** Drops a reference; the last one frees the block, with its content if that is worth keeping. */
    void release(int block, boolean keepContent) {
        if (refCounts[block] <= 0) {
            throw new IllegalStateException("block " + block + " is released but has no reference");
        }
        if (--refCounts[block] == 0) {
            numUsedSlots -= numFilled[block];
            free.add(block, keepContent);
        }
    }

    /** Notes that a held block's first count slots are written. */
    void fill(int block, int count) {
        if (count > numFilled[block]) {
            numUsedSlots += count - numFilled[block];
            numFilled[block] = count;
        }
    }

    /** The free blocks in the order in which they will be taken where no run is begun or continued. */
    int[] freeOrder() {
        return free.order();
    }

    /** Throws if references, free list and slot counts do not add up to the given references of tables. */
    void checkIntegrity(int[] expectedRefCounts, int blockSize) {
        if (!Arrays.equals(expectedRefCounts, refCounts)) {
            int block = Arrays.mismatch(expectedRefCounts, refCounts);
            throw new IllegalStateException("block " + block + " has " + refCounts[block] + " references but is in "
                    + expectedRefCounts[block] + " tables");
        }
        free.checkIntegrity();
        for (int block = 0; block < refCounts.length; block++) {
            if ((refCounts[block] == 0) != free.contains(block)) {
                throw new IllegalStateException("block " + block + " has " + refCounts[block] + " references and is "
                        + (free.contains(block) ? "" : "not ") + "among the free");
            }
        }
        long slots = 0;
        int held = 0;
        for (int block = 0; block < refCounts.length; block++) {
            if (refCounts[block] > 0) {
                held++;
                slots += numFilled[block];
            }
            if (numFilled[block] > blockSize) {
                throw new IllegalStateException(
                        "block " + block + " counts " + numFilled[block] + " written slots of " + blockSize);
            }
        }
        if (held + numFree() != refCounts.length || slots != numUsedSlots) {
            throw new IllegalStateException(held + " held + " + numFree() + " free of " + refCounts.length + " blocks; "
                    + slots + " slots written, the count says " + numUsedSlots);
        }
    }
}
