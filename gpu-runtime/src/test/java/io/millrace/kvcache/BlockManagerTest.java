package io.millrace.kvcache;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class BlockManagerTest {
    private static final String SALT = "model";

    private static int[] tokens(int count) {
        return IntStream.range(100, 100 + count).toArray();
    }

    private static int[] ids(BlockTable table) {
        return IntStream.range(0, table.numBlocks()).map(table::block).toArray();
    }

    private static BlockTable allocate(BlockManager blocks, int[] tokens, int expectedCached) {
        BlockTable table = new BlockTable();
        assertEquals(expectedCached, blocks.allocate(table, tokens, tokens.length, SALT, true, 0));
        return table;
    }

    private static BlockTable compute(BlockManager blocks, int[] tokens, int expectedCached) {
        BlockTable table = allocate(blocks, tokens, expectedCached);
        blocks.markComputed(table, tokens, expectedCached, tokens.length, SALT);
        return table;
    }

    @Test
    void threeSamplesOfAPromptOf100TokensUse7BlocksAnd9AfterTheirFirstTokens() {
        BlockManager blocks = new BlockManager(20, 16, true);
        int[] prompt = tokens(100);
        BlockTable first = compute(blocks, prompt, 0);
        BlockTable second = new BlockTable();
        BlockTable third = new BlockTable();
        blocks.fork(second, first, 100);
        blocks.fork(third, first, 100);
        assertEquals(7, blocks.numUsedBlocks());
        assertEquals(100, blocks.numUsedSlots());

        assertEquals(6, blocks.extend(first, 100, 101), "the first two copy the partly filled block");
        assertEquals(6, blocks.extend(second, 100, 101));
        assertEquals(BlockManager.WRITABLE, blocks.extend(third, 100, 101), "the last sharer writes in place");
        assertEquals(9, blocks.numUsedBlocks());
        assertArrayEquals(new int[] {0, 1, 2, 3, 4, 5, 7}, ids(first));
        assertArrayEquals(new int[] {0, 1, 2, 3, 4, 5, 8}, ids(second));
        assertArrayEquals(new int[] {0, 1, 2, 3, 4, 5, 6}, ids(third));
        for (BlockTable table : List.of(first, second, third)) {
            blocks.markComputed(table, tokens(101), 100, 101, SALT);
        }
        assertEquals(96 + 3 * 5, blocks.numUsedSlots());
        blocks.checkIntegrity(List.of(first, second, third));
    }

    @Test
    void forkOfAFullLastBlockCopiesNothing() {
        BlockManager blocks = new BlockManager(8, 16, true);
        BlockTable first = compute(blocks, tokens(32), 0);
        BlockTable second = new BlockTable();
        blocks.fork(second, first, 32);
        assertEquals(BlockManager.WRITABLE, blocks.extend(first, 32, 33));
        assertEquals(BlockManager.WRITABLE, blocks.extend(second, 32, 33));
        assertArrayEquals(new int[] {0, 1, 2}, ids(first));
        assertArrayEquals(new int[] {0, 1, 3}, ids(second));
    }

    @Test
    void blocksAreFoundOnlyOnceComputed() {
        BlockManager blocks = new BlockManager(10, 16, true);
        int[] prompt = tokens(40);
        BlockTable first = allocate(blocks, prompt, 0);
        allocate(blocks, prompt, 0);
        blocks.markComputed(first, prompt, 0, 20, SALT);
        BlockTable third = allocate(blocks, prompt, 16);
        assertArrayEquals(new int[] {0, 6, 7}, ids(third));
    }

    @Test
    void aWholePromptHitLeavesTheLastTokenToCompute() {
        BlockManager blocks = new BlockManager(10, 16, true);
        BlockTable first = compute(blocks, tokens(32), 0);
        BlockTable second = allocate(blocks, tokens(32), 16);
        assertArrayEquals(new int[] {0, 2}, ids(second));
        BlockTable third = allocate(blocks, tokens(33), 32);
        assertArrayEquals(new int[] {0, 1, 3}, ids(third));
        blocks.checkIntegrity(List.of(first, second, third));
    }

    @Test
    void generatedTokensFullBlocksAreFoundToo() {
        BlockManager blocks = new BlockManager(10, 4, true);
        BlockTable table = compute(blocks, tokens(3), 0);
        for (int position = 3; position < 9; position++) {
            assertEquals(BlockManager.WRITABLE, blocks.extend(table, position, position + 1));
            blocks.markComputed(table, tokens(9), position, position + 1, SALT);
        }
        blocks.free(table);
        allocate(blocks, tokens(12), 8);
    }

    @Test
    void freedBlocksStayFoundUntilReusedLeastRecentlyUsedFirst() {
        BlockManager blocks = new BlockManager(6, 4, true);
        int[] a = {1, 1, 1, 1, 2, 2, 2, 2, 3};
        int[] b = {9, 9, 9, 9, 8};
        BlockTable tableA = compute(blocks, a, 0); // 0 1 2
        BlockTable tableB = compute(blocks, b, 0); // 3 4
        blocks.free(tableA);
        blocks.free(tableB);
        // Without content first, the latest freed before the earlier ones; then by age, a prefix after what follows it.
        assertArrayEquals(new int[] {4, 2, 5, 1, 0, 3}, blocks.freeOrder());
        assertEquals(0, blocks.numUsedSlots());

        BlockTable hit = allocate(blocks, a, 8);
        assertArrayEquals(new int[] {0, 1, 4}, ids(hit));
        assertEquals(8, blocks.numUsedSlots());
        blocks.free(hit); // used again: now younger than b's block
        assertArrayEquals(new int[] {4, 2, 5, 3, 1, 0}, blocks.freeOrder());

        BlockTable other = allocate(blocks, tokens(20), 0); // evicts b and the second block of a
        assertArrayEquals(new int[] {4, 2, 5, 3, 1}, ids(other));
        blocks.free(other);
        allocate(blocks, a, 4);
        assertEquals(0, blocks.allocate(new BlockTable(), b, b.length, SALT, true, 0));
    }

    @Test
    void saltsKeepPrefixesApart() {
        BlockManager blocks = new BlockManager(10, 4, true);
        compute(blocks, tokens(9), 0);
        assertEquals(0, blocks.allocate(new BlockTable(), tokens(9), 9, "other model", true, 0));
        assertEquals(8, blocks.allocate(new BlockTable(), tokens(9), 9, SALT, true, 0));
    }

    @Test
    void cacheIsNotReadWhenAskedNotToOrSwitchedOff() {
        BlockManager blocks = new BlockManager(10, 4, true);
        compute(blocks, tokens(9), 0);
        assertEquals(0, blocks.allocate(new BlockTable(), tokens(9), 9, SALT, false, 0));
        BlockManager off = new BlockManager(10, 4, false);
        compute(off, tokens(9), 0);
        compute(off, tokens(9), 0);
    }

    @Test
    void aDuplicateStaysInItsTableAndContinuesTheChainOfTheFirst() {
        BlockManager blocks = new BlockManager(12, 4, true);
        BlockTable first = allocate(blocks, tokens(9), 0);
        BlockTable twin = allocate(blocks, tokens(13), 0);
        blocks.markComputed(first, tokens(9), 0, 9, SALT);
        blocks.markComputed(twin, tokens(13), 0, 13, SALT);
        assertArrayEquals(new int[] {3, 4, 5, 6}, ids(twin));
        BlockTable third = allocate(blocks, tokens(13), 12);
        assertArrayEquals(new int[] {0, 1, 5, 7}, ids(third));
        blocks.checkIntegrity(List.of(first, twin, third));
    }

    @Test
    void collidingHashesNeverHandOutAnotherText() {
        PrefixIndex index = new PrefixIndex(4, 2);
        long hash = 42;
        long first = index.put(0, hash, PrefixIndex.ROOT, SALT, new int[] {1, 2}, 0);
        long second = index.put(1, hash, PrefixIndex.ROOT, SALT, new int[] {3, 4}, 0);
        index.put(2, hash, first, SALT, new int[] {5, 6}, 0);
        assertEquals(0, index.find(hash, PrefixIndex.ROOT, SALT, new int[] {1, 2}, 0));
        assertEquals(1, index.find(hash, PrefixIndex.ROOT, SALT, new int[] {3, 4}, 0));
        assertEquals(2, index.find(hash, first, SALT, new int[] {5, 6}, 0));
        assertEquals(BlockPool.NONE, index.find(hash, second, SALT, new int[] {5, 6}, 0), "another parent");
        assertEquals(BlockPool.NONE, index.find(hash, PrefixIndex.ROOT, "x", new int[] {1, 2}, 0), "another salt");
        index.remove(1);
        assertEquals(0, index.find(hash, PrefixIndex.ROOT, SALT, new int[] {1, 2}, 0));
        assertEquals(BlockPool.NONE, index.find(hash, PrefixIndex.ROOT, SALT, new int[] {3, 4}, 0));
        assertEquals(2, index.numEntries());
    }

    @Test
    void allOrNothing() {
        BlockManager blocks = new BlockManager(4, 4, true);
        BlockTable table = compute(blocks, tokens(8), 0);
        assertEquals(BlockManager.NO_FREE_BLOCK, blocks.allocate(new BlockTable(), tokens(17), 17, SALT, true, 0));
        assertEquals(BlockManager.NO_FREE_BLOCK, blocks.allocate(new BlockTable(), tokens(9), 9, SALT, true, 2));
        assertEquals(BlockManager.NO_FREE_BLOCK, blocks.extend(table, 8, 17));
        assertEquals(2, blocks.numFreeBlocks());
        BlockTable fork = new BlockTable();
        blocks.fork(fork, table, 7);
        assertEquals(BlockManager.NO_FREE_BLOCK, blocks.extend(fork, 7, 17), "a copy and two more");
        assertEquals(1, blocks.extend(fork, 7, 12), "a copy and one more");
        blocks.checkIntegrity(List.of(table, fork));
    }

    @Test
    void siblingsShareFullBlocksWithoutACache() {
        BlockManager blocks = new BlockManager(10, 4, false);
        BlockTable first = compute(blocks, tokens(10), 0);
        BlockTable second = new BlockTable();
        assertEquals(8, blocks.allocateBeside(second, 12, first, 10, 0));
        assertArrayEquals(new int[] {0, 1, 3}, ids(second));
        assertEquals(BlockManager.NO_FREE_BLOCK, blocks.allocateBeside(new BlockTable(), 12, first, 10, 6));
        blocks.checkIntegrity(List.of(first, second));
    }

    @Test
    void integrityCheckFindsALostTable() {
        BlockManager blocks = new BlockManager(4, 4, true);
        BlockTable table = allocate(blocks, tokens(8), 0);
        blocks.checkIntegrity(List.of(table));
        assertThrows(IllegalStateException.class, () -> blocks.checkIntegrity(List.of()));
        assertThrows(IllegalStateException.class, () -> blocks.checkIntegrity(List.of(table, table)));
    }
}
