package io.millrace.kvcache;

import java.util.Arrays;

/**
 * Gives KV blocks to sequences: paged as in vLLM (Kwon et al., 2023), shared by reference between sequences of equal
 * prefixes, copied on the first write to a shared block. Full blocks are content-addressed once their KV is computed and stay
 * findable after they were freed until their memory is needed, the least recently used first ({@link FreeBlocks} says by what
 * measure). Engine thread only.
 */
public final class BlockManager {
    /** {@link #extend}: all slots may be written, nothing to copy. */
    public static final int WRITABLE = -2;

    /** {@link #extend}, {@link #allocate}: too few free blocks; nothing changed. */
    public static final int NO_FREE_BLOCK = -1;

    private final int blockSize;
    private final boolean prefixCaching;
    private final int unitBlocks; // what is shared and found: multiples of so many blocks
    private final int blocksPerRun; // what a table should have as neighbours
    private final BlockPool pool;
    private final PrefixIndex index;
    private int[] found = new int[64]; // scratch of lookups
    private int peakUsedBlocks;

    public BlockManager(int numBlocks, int blockSize, boolean prefixCaching) {
        this(numBlocks, blockSize, prefixCaching, 1, 1);
    }

    /**
     * Blocks of which only whole units are ever shared, and which tables get as neighbours where possible. KV that is rounded
     * when a unit becomes whole must not be read by others before, nor change under them.
     *
     * @param unitBlocks blocks of a unit; 1 unless KV changes when a unit becomes whole
     * @param blocksPerRun blocks of a tile: every so many blocks of a table, from its first on, should have consecutive numbers,
     *     the first a multiple of it; 1 where that does not matter
     */
    public BlockManager(int numBlocks, int blockSize, boolean prefixCaching, int unitBlocks, int blocksPerRun) {
        if (numBlocks < 1 || blockSize < 1) {
            throw new IllegalArgumentException(
                    numBlocks + " blocks of " + blockSize + " tokens: both must be positive");
        }
        if (unitBlocks < 1 || blocksPerRun < 1) {
            throw new IllegalArgumentException("units of " + unitBlocks + " blocks, runs of " + blocksPerRun
                    + ": both must be positive; 1 where it does not matter");
        }
        this.blockSize = blockSize;
        this.prefixCaching = prefixCaching;
        this.unitBlocks = unitBlocks;
        this.blocksPerRun = blocksPerRun;
        pool = new BlockPool(numBlocks, blocksPerRun);
        index = new PrefixIndex(numBlocks, blockSize);
    }

    public int blockSize() {
        return blockSize;
    }

    public int numBlocks() {
        return pool.numBlocks();
    }

    /** Blocks no table holds; cached ones count, they can be taken. */
    public int numFreeBlocks() {
        return pool.numFree();
    }

    public int numUsedBlocks() {
        return pool.numBlocks() - pool.numFree();
    }

    public int peakUsedBlocks() {
        return peakUsedBlocks;
    }

    /** Slots written in held blocks; shared blocks count once. */
    public long numUsedSlots() {
        return pool.numUsedSlots();
    }

    public boolean prefixCaching() {
        return prefixCaching;
    }

    /** Whether sequences may share all blocks of a prefix of so many tokens, a partly filled one included. */
    public boolean maySharePrefix(int numTokens) {
        return unitBlocks == 1 || numTokens % (unitBlocks * blockSize) == 0;
    }

    /** How many of a sequence's first numTokens tokens {@link #allocate} would find; changes nothing. */
    public int numCachedTokens(int[] tokenIds, int numTokens, String salt) {
        return prefixCaching ? find(tokenIds, numTokens, salt) * blockSize : 0;
    }

    /**
     * The blocks that hold the KV of a prefix, wherever it was computed; null unless all of it can be found. They keep it
     * until the next block is taken. Changes nothing.
     *
     * @param numTokens whole blocks
     */
    public int[] cachedBlocks(int[] tokenIds, int numTokens, String salt) {
        int count = prefixCaching ? find(tokenIds, numTokens + 1, salt) : 0;
        return count * blockSize < numTokens ? null : Arrays.copyOf(found, count);
    }

    /** Blocks that so many tokens take. */
    public int numBlocksFor(int numTokens) {
        return (numTokens + blockSize - 1) / blockSize;
    }

    /**
     * Gives an empty table the blocks of a sequence's first numTokens tokens: those found in the cache by reference, the rest
     * new. The last token is never taken from the cache: its logits have to be computed. Takes all blocks or none.
     *
     * @param salt keeps apart what must not share KV
     * @param readCache false to compute everything anew
     * @param numSpareBlocks blocks that must stay free afterwards
     * @return tokens whose KV was found, or {@link #NO_FREE_BLOCK}
     */
    public int allocate(
            BlockTable table, int[] tokenIds, int numTokens, String salt, boolean readCache, int numSpareBlocks) {
        requireEmpty(table);
        int numFound = readCache && prefixCaching ? find(tokenIds, numTokens, salt) : 0;
        int numFoundFree = 0;
        for (int i = 0; i < numFound; i++) {
            numFoundFree += pool.refCount(found[i]) == 0 ? 1 : 0;
        }
        int numNew = numBlocksFor(numTokens) - numFound;
        if (numNew + numFoundFree + numSpareBlocks > pool.numFree()) {
            return NO_FREE_BLOCK;
        }
        long hash = BlockHash.ofSalt(salt);
        for (int i = 0; i < numFound; i++) {
            pool.retain(found[i]);
            table.add(found[i]);
            hash = BlockHash.extend(hash, tokenIds, i * blockSize, blockSize);
        }
        table.numIndexedBlocks = numFound;
        table.lastHash = hash;
        table.lastContentId = numFound == 0 ? PrefixIndex.ROOT : index.contentId(found[numFound - 1]);
        addNew(table, numNew);
        return numFound * blockSize;
    }

    /**
     * As {@link #allocate}, with the full blocks of a sibling's prefix in place of the cache's, which is switched off.
     *
     * @param numSharedTokens tokens both have in common whose KV is computed in the sibling's blocks
     */
    public int allocateBeside(
            BlockTable table, int numTokens, BlockTable sibling, int numSharedTokens, int numSpareBlocks) {
        requireEmpty(table);
        int numShared = wholeUnits(Math.min(numSharedTokens, numTokens - 1) / blockSize);
        int numNew = numBlocksFor(numTokens) - numShared;
        if (numNew + numSpareBlocks > pool.numFree()) {
            return NO_FREE_BLOCK;
        }
        share(table, sibling, numShared);
        addNew(table, numNew);
        return numShared * blockSize;
    }

    /**
     * Gives an empty table the blocks of a sibling's first numTokens tokens by reference, a partly filled one included. The
     * sibling's KV is computed just so far.
     */
    public void fork(BlockTable table, BlockTable sibling, int numTokens) {
        requireEmpty(table);
        share(table, sibling, numBlocksFor(numTokens));
    }

    /**
     * Makes the slots of positions firstPosition … endPosition-1 writable: adds blocks, and gives the table a block of its
     * own where others share the one that firstPosition lies in. The last sharer writes in place. All or nothing.
     *
     * @return {@link #WRITABLE}; {@link #NO_FREE_BLOCK}; or the block whose content must be copied to the table's block of
     *     firstPosition before the next write
     */
    public int extend(BlockTable table, int firstPosition, int endPosition) {
        int index = firstPosition / blockSize;
        boolean copy = index < table.numBlocks() && pool.refCount(table.block(index)) > 1;
        int numNew = Math.max(0, numBlocksFor(endPosition) - table.numBlocks());
        if (numNew + (copy ? 1 : 0) > pool.numFree()) {
            return NO_FREE_BLOCK;
        }
        int source = WRITABLE;
        if (copy) {
            source = table.block(index);
            int own = takeBlock(table, index);
            table.replace(index, own);
            pool.fill(own, firstPosition % blockSize);
            pool.release(source, false); // another table holds it, so nothing is freed here
        }
        addNew(table, numNew);
        return source;
    }

    /**
     * Adds blocks for positions up to endPosition-1 if so many can be had and numSpareBlocks stay free. All or nothing.
     *
     * @return whether the table has them
     */
    public boolean tryGrow(BlockTable table, int endPosition, int numSpareBlocks) {
        int numNew = numBlocksFor(endPosition) - table.numBlocks();
        if (numNew > 0) {
            if (numNew + numSpareBlocks > pool.numFree()) {
                return false;
            }
            addNew(table, numNew);
        }
        return true;
    }

    /** Frees the blocks behind the first numTokens tokens; none of them may have been marked computed. */
    public void truncate(BlockTable table, int numTokens) {
        int numKept = numBlocksFor(numTokens);
        if (numKept < table.numIndexedBlocks) {
            throw new IllegalStateException("the first " + table.numIndexedBlocks
                    + " blocks of a table are computed; it cannot be cut to " + numKept);
        }
        if (table.numBlocks() <= numKept) {
            return;
        }
        while (table.numBlocks() > numKept) {
            pool.release(table.removeLast(), false);
        }
        if (numKept > 0) { // it will grow into them again
            pool.reserveBehind(table.block(numKept - 1), (numKept - 1) % blocksPerRun);
        }
    }

    /**
     * Notes that the KV of positions from … to-1 is computed (the step that wrote it has ended). Blocks that became full can
     * be found from now on.
     */
    public void markComputed(BlockTable table, int[] tokenIds, int from, int to, String salt) {
        for (int i = from / blockSize; i * blockSize < to; i++) {
            pool.fill(table.block(i), Math.min(blockSize, to - i * blockSize));
        }
        if (!prefixCaching) {
            return;
        }
        int numWhole = wholeUnits(to / blockSize);
        while (table.numIndexedBlocks < numWhole) {
            int i = table.numIndexedBlocks;
            if (i == 0) {
                table.lastHash = BlockHash.ofSalt(salt);
                table.lastContentId = PrefixIndex.ROOT;
            }
            int block = table.block(i);
            table.lastHash = BlockHash.extend(table.lastHash, tokenIds, i * blockSize, blockSize);
            if (index.contains(block)) { // a sibling that shares the block was first
                table.lastContentId = index.contentId(block);
            } else {
                table.lastContentId =
                        index.put(block, table.lastHash, table.lastContentId, salt, tokenIds, i * blockSize);
            }
            table.numIndexedBlocks = i + 1;
        }
    }

    /** Drops all of a table's references. The last blocks are freed first: a prefix outlives what follows it. */
    public void free(BlockTable table) {
        for (int i = table.numBlocks() - 1; i >= 0; i--) {
            int block = table.block(i);
            pool.release(block, index.contains(block));
        }
        table.clear();
    }

    /** The free blocks in the order in which they will be taken where no run is begun or continued; for tests and tools. */
    public int[] freeOrder() {
        return pool.freeOrder();
    }

    /** References of a block; for tests and tools. */
    public int refCount(int block) {
        return pool.refCount(block);
    }

    /** Throws IllegalStateException unless references, free list and slot counts agree with exactly these tables. */
    public void checkIntegrity(Iterable<BlockTable> tables) {
        int[] expected = new int[pool.numBlocks()];
        for (BlockTable table : tables) {
            for (int i = 0; i < table.numBlocks(); i++) {
                expected[table.block(i)]++;
            }
        }
        pool.checkIntegrity(expected, blockSize);
        int numIndexed = 0;
        for (int block = 0; block < pool.numBlocks(); block++) {
            if (index.contains(block)) {
                numIndexed++;
                if (pool.numFilled(block) != blockSize) {
                    throw new IllegalStateException("block " + block + " can be found but has " + pool.numFilled(block)
                            + " of " + blockSize + " slots written");
                }
            }
        }
        if (numIndexed != index.numEntries()) {
            throw new IllegalStateException(
                    numIndexed + " blocks can be found, the index counts " + index.numEntries());
        }
    }

    private int find(int[] tokenIds, int numTokens, String salt) {
        int most = (numTokens - 1) / blockSize;
        if (found.length < most) {
            found = new int[Math.max(most, 2 * found.length)];
        }
        long hash = BlockHash.ofSalt(salt);
        long contentId = PrefixIndex.ROOT;
        int count = 0;
        while (count < most) {
            hash = BlockHash.extend(hash, tokenIds, count * blockSize, blockSize);
            int block = index.find(hash, contentId, salt, tokenIds, count * blockSize);
            if (block == BlockPool.NONE) {
                break;
            }
            contentId = index.contentId(block);
            found[count++] = block;
        }
        return wholeUnits(count);
    }

    private int wholeUnits(int numBlocks) {
        return numBlocks - numBlocks % unitBlocks;
    }

    private void share(BlockTable table, BlockTable sibling, int count) {
        for (int i = 0; i < count; i++) {
            pool.retain(sibling.block(i));
            table.add(sibling.block(i));
        }
        if (prefixCaching) {
            if (sibling.numIndexedBlocks > count) {
                throw new IllegalStateException("only " + count + " blocks are shared of a table that was computed to "
                        + sibling.numIndexedBlocks + " full ones");
            }
            table.numIndexedBlocks = sibling.numIndexedBlocks;
            table.lastHash = sibling.lastHash;
            table.lastContentId = sibling.lastContentId;
        }
    }

    private void addNew(BlockTable table, int count) {
        for (int i = 0; i < count; i++) {
            table.add(takeBlock(table, table.numBlocks()));
        }
    }

    private int takeBlock(BlockTable table, int indexInTable) {
        int previous = indexInTable == 0 ? BlockPool.NONE : table.block(indexInTable - 1);
        int block = pool.take(previous, indexInTable % blocksPerRun);
        if (index.contains(block)) {
            index.remove(block);
        }
        peakUsedBlocks = Math.max(peakUsedBlocks, numUsedBlocks());
        return block;
    }

    private static void requireEmpty(BlockTable table) {
        if (table.numBlocks() != 0) {
            throw new IllegalStateException("the table holds " + table.numBlocks() + " blocks already");
        }
    }
}
