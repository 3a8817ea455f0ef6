package io.millrace.backend.cpu;

import io.millrace.kernels.Kernels;

/**
 * Brings the blocks that a compute thread multiplies next to its cache, some cache lines of each at a time, between what it
 * computes meanwhile: Java has no instruction that asks for a line without waiting for it, but memory answers several requests,
 * best to several pages, as fast as one, and hardware that sees a block read in turn reads on by itself. Used by its thread
 * only.
 */
final class ReadAhead {
    private static final int MAX_BLOCKS = 64;
    private static final int BLOCKS_PER_TILE = Kernels.TILE_SIZE / Kernels.BLOCK_SIZE;

    private final KvPool pool;
    private final int blockElements; // keys, then values
    private final int[] starts = new int[MAX_BLOCKS];
    private int layer;
    private int numBlocks;
    private int next; // element of every block
    private int touched; // takes what is read, so that the compiler does not leave the reads out

    ReadAhead(KvPool pool) {
        this.pool = pool;
        this.blockElements = pool.elementsOfHead();
    }

    /** Begins anew, with no blocks; what has not been read of the last ones is forgotten. */
    void begin(int layer) {
        this.layer = layer;
        numBlocks = 0;
        next = 0;
    }

    /** Adds tiles of a piece as far as they hold keys; blocks for which there is no room are left to the hardware. */
    void addTiles(AttentionPlan plan, int piece, int tile, int numTiles, int kvHead) {
        int[] table = plan.blockTable(piece);
        int first = tile * BLOCKS_PER_TILE;
        int end = Math.min(first + numTiles * BLOCKS_PER_TILE, plan.endBlock(piece));
        end = Math.min(end, first + MAX_BLOCKS - numBlocks);
        for (int b = first; b < end; b++) {
            starts[numBlocks++] = pool.keyOffset(table[b], kvHead);
        }
    }

    /** Reads the next one of so many parts of all blocks, nothing once all has been read. */
    void advance(int numParts) {
        if (numBlocks == 0) {
            return;
        }
        int line = pool.elementsOfCacheLine();
        int numLines = (blockElements / line + numParts - 1) / numParts;
        int end = Math.min(blockElements, next + numLines * line);
        int read = 0;
        for (int i = next; i < end; i += line) {
            for (int b = 0; b < numBlocks; b++) {
                read ^= pool.touch(layer, starts[b] + i);
            }
        }
        next = end;
        touched ^= read;
    }
}
