package io.millrace.kvcache;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tables get the blocks of a tile as neighbours while there is room, and every block where there is none. */
class BlockRunsTest {
    private static final String SALT = "model";
    private static final int BLOCK_SIZE = 4;
    private static final int RUN = 4;

    private static BlockManager blocks(int numBlocks) {
        return new BlockManager(numBlocks, BLOCK_SIZE, true, 1, RUN);
    }

    private static int[] tokens(int first, int count) {
        return IntStream.range(first, first + count).toArray();
    }

    private static BlockTable compute(BlockManager blocks, int[] tokens, int expectedCached) {
        BlockTable table = new BlockTable();
        assertEquals(expectedCached, blocks.allocate(table, tokens, tokens.length, SALT, true, 0));
        blocks.markComputed(table, tokens, expectedCached, tokens.length, SALT);
        return table;
    }

    private static void assertIds(BlockTable table, int... ids) {
        assertArrayEquals(ids, Arrays.copyOf(table.blocks(), table.numBlocks()));
    }

    private static void grow(BlockManager blocks, BlockTable table) {
        int position = table.numBlocks() * BLOCK_SIZE;
        assertEquals(BlockManager.WRITABLE, blocks.extend(table, position, position + 1));
    }

    private static int numTilesInRuns(BlockTable table) {
        int count = 0;
        for (int first = 0; first + RUN <= table.numBlocks(); first += RUN) {
            int block = table.block(first);
            int[] run = IntStream.range(block, block + RUN).toArray();
            count += block % RUN == 0 && Arrays.equals(run, 0, RUN, table.blocks(), first, first + RUN) ? 1 : 0;
        }
        return count;
    }

    @Test
    void sequencesGrowingInLockStepGetWholeRunsGenerationAfterGeneration() {
        int numSequences = 64;
        int numTiles = 3;
        BlockManager blocks = blocks(numSequences * numTiles * RUN);
        for (int generation = 0; generation < 3; generation++) {
            List<BlockTable> tables = new ArrayList<>();
            for (int i = 0; i < numSequences; i++) {
                int[] prompt = tokens((generation * numSequences + i) * 1000, 5 * BLOCK_SIZE);
                tables.add(compute(blocks, prompt, 0));
            }
            for (int position = 5 * BLOCK_SIZE; position < numTiles * RUN * BLOCK_SIZE; position++) {
                for (int i = 0; i < numSequences; i++) {
                    int[] text = tokens((generation * numSequences + i) * 1000, position + 1);
                    assertEquals(BlockManager.WRITABLE, blocks.extend(tables.get(i), position, position + 1));
                    blocks.markComputed(tables.get(i), text, position, position + 1, SALT);
                }
            }
            blocks.checkIntegrity(tables);
            assertEquals(0, blocks.numFreeBlocks());
            for (BlockTable table : tables) {
                assertEquals(numTiles, numTilesInRuns(table), () -> "generation's table " + table);
            }
            tables.forEach(blocks::free);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void underPressureRunsAreBrokenButEveryBlockIsUsedAndRunsAreWholeAgainAfterwards(long seed) {
        Random random = new Random(seed);
        int numBlocks = 7 * RUN + 2;
        BlockManager blocks = blocks(numBlocks);
        List<BlockTable> tables = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            tables.add(new BlockTable());
        }
        for (int numTaken = 0; numTaken < numBlocks; numTaken++) {
            assertEquals(numBlocks - numTaken, blocks.numFreeBlocks());
            grow(blocks, tables.get(random.nextInt(tables.size())));
            blocks.checkIntegrity(tables);
        }
        for (BlockTable table : tables) {
            int position = table.numBlocks() * BLOCK_SIZE;
            assertEquals(BlockManager.NO_FREE_BLOCK, blocks.extend(table, position, position + 1));
        }
        Collections.shuffle(tables, random);
        tables.forEach(blocks::free);
        assertEquals(numBlocks, blocks.numFreeBlocks());
        int[] text = tokens(0, numBlocks * BLOCK_SIZE);
        BlockTable all = compute(blocks, text, 0);
        assertEquals(7, numTilesInRuns(all), () -> "seed " + seed + ": " + all);
        blocks.checkIntegrity(List.of(all));
    }

    @Test
    void reservedBlocksAreTheLastToBeTakenFromTheEndOfTheRun() {
        BlockManager blocks = blocks(8);
        BlockTable first = compute(blocks, tokens(0, 1), 0);
        BlockTable second = compute(blocks, tokens(100, 1), 0);
        BlockTable third = compute(blocks, tokens(200, 1), 0);
        BlockTable fourth = compute(blocks, tokens(300, 1), 0);
        assertIds(first, 0);
        assertIds(second, 4);
        assertIds(third, 7);
        assertIds(fourth, 6);
        grow(blocks, first);
        grow(blocks, second);
        assertIds(first, 0, 1);
        assertIds(second, 4, 5);
        grow(blocks, second);
        assertIds(second, 4, 5, 3);
        blocks.checkIntegrity(List.of(first, second, third, fourth));
    }

    @Test
    void samplesOfAPromptShareTheRestOfAnotherRunUntilTheirNextTile() {
        BlockManager blocks = blocks(32);
        BlockTable first = compute(blocks, tokens(0, 6 * BLOCK_SIZE), 0);
        BlockTable second = new BlockTable();
        BlockTable third = new BlockTable();
        blocks.fork(second, first, 6 * BLOCK_SIZE);
        blocks.fork(third, first, 6 * BLOCK_SIZE);
        List<BlockTable> tables = List.of(first, second, third);
        for (int i = 0; i < 3; i++) {
            tables.forEach(table -> grow(blocks, table));
        }
        assertIds(first, 0, 1, 2, 3, 4, 5, 6, 7, 12);
        assertIds(second, 0, 1, 2, 3, 4, 5, 8, 9, 16);
        assertIds(third, 0, 1, 2, 3, 4, 5, 10, 11, 20);
        blocks.checkIntegrity(tables);
    }

    @Test
    void aCopiedBlockBeginsARunOfItsOwn() {
        BlockManager blocks = blocks(16);
        BlockTable first = compute(blocks, tokens(0, 22), 0);
        BlockTable second = new BlockTable();
        blocks.fork(second, first, 22);
        assertEquals(5, blocks.extend(first, 22, 23));
        assertEquals(BlockManager.WRITABLE, blocks.extend(second, 22, 23));
        grow(blocks, second);
        grow(blocks, first);
        grow(blocks, first);
        assertIds(first, 0, 1, 2, 3, 4, 8, 9, 10);
        assertIds(second, 0, 1, 2, 3, 4, 5, 6);
        blocks.checkIntegrity(List.of(first, second));
    }

    @Test
    void whatIsCutOffStaysReserved() {
        BlockManager blocks = blocks(12);
        BlockTable table = compute(blocks, tokens(0, 5 * BLOCK_SIZE), 0);
        assertTrue(blocks.tryGrow(table, 7 * BLOCK_SIZE, 0));
        assertIds(table, 0, 1, 2, 3, 4, 5, 6);
        blocks.truncate(table, 5 * BLOCK_SIZE);
        BlockTable other = compute(blocks, tokens(100, RUN * BLOCK_SIZE), 0);
        assertIds(other, 8, 9, 10, 11);
        grow(blocks, table);
        assertIds(table, 0, 1, 2, 3, 4, 5);
        blocks.checkIntegrity(List.of(table, other));
    }

    @Test
    void contentIsNotForgottenForTheSakeOfItsPlace() {
        BlockManager blocks = blocks(16);
        int[] text = tokens(0, 6 * BLOCK_SIZE + 1);
        blocks.free(compute(blocks, text, 0)); // 0 … 6
        int[] other = Arrays.copyOf(text, text.length);
        Arrays.fill(other, 2 * BLOCK_SIZE, other.length, 7);
        BlockTable table = compute(blocks, other, 2 * BLOCK_SIZE);
        assertIds(table, 0, 1, 6, 7, 8, 9, 10); // 2 is cached; what was left of the text's last run is not
        BlockTable again = compute(blocks, text, 6 * BLOCK_SIZE);
        assertIds(again, 0, 1, 2, 3, 4, 5, 12);
        blocks.checkIntegrity(List.of(table, again));
    }

    @Test
    void theLeastRecentlyUsedRunIsForgottenFirstButOneOfLittleContentBefore() {
        BlockManager blocks = blocks(16);
        int[] a = tokens(0, 5 * BLOCK_SIZE + 1);
        int[] b = tokens(100, 4 * BLOCK_SIZE + 1);
        int[] c = tokens(200, RUN * BLOCK_SIZE);
        BlockTable tableA = compute(blocks, Arrays.copyOf(a, 5 * BLOCK_SIZE), 0);
        BlockTable tableB = compute(blocks, Arrays.copyOf(b, 4 * BLOCK_SIZE), 0);
        assertIds(tableA, 0, 1, 2, 3, 4);
        assertIds(tableB, 8, 9, 10, 11);
        blocks.free(tableB);
        blocks.free(tableA);
        BlockTable first = compute(blocks, c, 0);
        BlockTable second = compute(blocks, tokens(300, RUN * BLOCK_SIZE), 0);
        assertIds(first, 12, 13, 14, 15); // empty
        assertIds(second, 4, 5, 6, 7); // one block of content, a's last
        assertEquals(4 * BLOCK_SIZE, blocks.numCachedTokens(a, a.length, SALT));
        assertEquals(4 * BLOCK_SIZE, blocks.numCachedTokens(b, b.length, SALT));
        BlockTable third = compute(blocks, tokens(400, RUN * BLOCK_SIZE), 0);
        assertIds(third, 8, 9, 10, 11);
        assertEquals(4 * BLOCK_SIZE, blocks.numCachedTokens(a, a.length, SALT));
        assertEquals(0, blocks.numCachedTokens(b, b.length, SALT));
    }

    @Test
    void ofRunsOfLittleContentTheLeastRecentlyUsedIsForgottenFirst() {
        BlockManager blocks = blocks(3 * RUN);
        int[][] texts = {tokens(0, BLOCK_SIZE + 1), tokens(100, BLOCK_SIZE + 1), tokens(200, BLOCK_SIZE + 1)};
        for (int[] text : texts) {
            blocks.free(compute(blocks, Arrays.copyOf(text, BLOCK_SIZE), 0));
        }
        compute(blocks, tokens(300, RUN * BLOCK_SIZE), 0);
        assertEquals(0, blocks.numCachedTokens(texts[0], texts[0].length, SALT));
        assertEquals(BLOCK_SIZE, blocks.numCachedTokens(texts[1], texts[1].length, SALT));
        assertEquals(BLOCK_SIZE, blocks.numCachedTokens(texts[2], texts[2].length, SALT));
    }
}
