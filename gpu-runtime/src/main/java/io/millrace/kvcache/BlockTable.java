package io.millrace.kvcache;

import java.util.Arrays;

/**
 * The blocks that hold one sequence's KV, in order of position. Written by {@link BlockManager} alone; engine thread only.
 */
public final class BlockTable {
    private int[] blocks = new int[4];
    private int numBlocks;

    // How far this table's full blocks have been offered to the prefix index, and the chain's state there.
    int numIndexedBlocks;
    long lastHash;
    long lastContentId;

    public int numBlocks() {
        return numBlocks;
    }

    public int block(int index) {
        if (index >= numBlocks) {
            throw new IndexOutOfBoundsException("block " + index + " of a table of " + numBlocks);
        }
        return blocks[index];
    }

    /** The table's own array, valid to numBlocks; not to be written or kept. */
    public int[] blocks() {
        return blocks;
    }

    void add(int block) {
        if (numBlocks == blocks.length) {
            blocks = Arrays.copyOf(blocks, 2 * numBlocks);
        }
        blocks[numBlocks++] = block;
    }

    void replace(int index, int block) {
        blocks[index] = block;
    }

    int removeLast() {
        return blocks[--numBlocks];
    }

    void clear() {
        numBlocks = 0;
        numIndexedBlocks = 0;
        lastHash = 0;
        lastContentId = 0;
    }

    @Override
    public String toString() {
        return Arrays.toString(Arrays.copyOf(blocks, numBlocks));
    }
}
