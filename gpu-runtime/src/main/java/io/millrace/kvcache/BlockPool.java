package io.millrace.kvcache;

import java.util.Arrays;

/**
 * All blocks by number: reference counts, how many of each block's slots are written, and the free blocks in the order in
 * which they will be taken. A freed block whose content is worth keeping goes to the end of that order (least recently used
 * first), one without content to its front.
 */
final class BlockPool {
    static final int NONE = -1;

    private final int[] refCounts;
    private final int[] numFilled;
    private final int[] previousFree;
    private final int[] nextFree;
    private int firstFree;
    private int lastFree;
    private int numFree;
    private long numUsedSlots;

    BlockPool(int numBlocks) {
        refCounts = new int[numBlocks];
        numFilled = new int[numBlocks];
        previousFree = new int[numBlocks];
        nextFree = new int[numBlocks];
        for (int block = 0; block < numBlocks; block++) {
            previousFree[block] = block - 1;
            nextFree[block] = block + 1 < numBlocks ? block + 1 : NONE;
        }
        firstFree = numBlocks > 0 ? 0 : NONE;
        lastFree = numBlocks - 1;
        numFree = numBlocks;
    }

    int numBlocks() {
        return refCounts.length;
    }

    int numFree() {
        return numFree;
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

    /** Takes the first free block, empty, with one reference. */
    int take() {
        int block = firstFree;
        if (block == NONE) {
            throw new IllegalStateException("no free block of " + numBlocks() + "; the caller must look first");
        }
        unlink(block);
        refCounts[block] = 1;
        numFilled[block] = 0;
        return block;
    }

    /** Adds a reference; takes the block out of the free ones if it was there. */
    void retain(int block) {
        if (refCounts[block]++ == 0) {
            unlink(block);
            numUsedSlots += numFilled[block];
        }
    }

    /** Drops a reference; the last one frees the block, to the end of the order if its content is kept. */
    void release(int block, boolean keepContent) {
        if (refCounts[block] <= 0) {
            throw new IllegalStateException("block " + block + " is released but has no reference");
        }
        if (--refCounts[block] == 0) {
            numUsedSlots -= numFilled[block];
            if (keepContent) {
                linkLast(block);
            } else {
                linkFirst(block);
            }
        }
    }

    /** Notes that a held block's first count slots are written. */
    void fill(int block, int count) {
        if (count > numFilled[block]) {
            numUsedSlots += count - numFilled[block];
            numFilled[block] = count;
        }
    }

    private void unlink(int block) {
        int before = previousFree[block];
        int after = nextFree[block];
        if (before == NONE) {
            firstFree = after;
        } else {
            nextFree[before] = after;
        }
        if (after == NONE) {
            lastFree = before;
        } else {
            previousFree[after] = before;
        }
        numFree--;
    }

    private void linkFirst(int block) {
        previousFree[block] = NONE;
        nextFree[block] = firstFree;
        if (firstFree == NONE) {
            lastFree = block;
        } else {
            previousFree[firstFree] = block;
        }
        firstFree = block;
        numFree++;
    }

    private void linkLast(int block) {
        nextFree[block] = NONE;
        previousFree[block] = lastFree;
        if (lastFree == NONE) {
            firstFree = block;
        } else {
            nextFree[lastFree] = block;
        }
        lastFree = block;
        numFree++;
    }

    /** The free blocks in the order in which they will be taken. */
    int[] freeOrder() {
        int[] order = new int[numFree];
        int count = 0;
        for (int block = firstFree; block != NONE; block = nextFree[block]) {
            if (count == numFree) {
                throw new IllegalStateException("the free list is longer than its count " + numFree);
            }
            order[count++] = block;
        }
        if (count != numFree) {
            throw new IllegalStateException("the free list holds " + count + " blocks, its count says " + numFree);
        }
        return order;
    }

    /** Throws if references, free list and slot counts do not add up to the given references of tables. */
    void checkIntegrity(int[] expectedRefCounts, int blockSize) {
        if (!Arrays.equals(expectedRefCounts, refCounts)) {
            int block = Arrays.mismatch(expectedRefCounts, refCounts);
            throw new IllegalStateException("block " + block + " has " + refCounts[block] + " references but is in "
                    + expectedRefCounts[block] + " tables");
        }
        boolean[] free = new boolean[refCounts.length];
        for (int block : freeOrder()) {
            if (refCounts[block] != 0 || free[block]) {
                throw new IllegalStateException("block " + block + " is in the free list with " + refCounts[block]
                        + " references" + (free[block] ? ", twice" : ""));
            }
            free[block] = true;
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
        if (held + numFree != refCounts.length || slots != numUsedSlots) {
            throw new IllegalStateException(held + " held + " + numFree + " free of " + refCounts.length + " blocks; "
                    + slots + " slots written, the count says " + numUsedSlots);
        }
    }
}
