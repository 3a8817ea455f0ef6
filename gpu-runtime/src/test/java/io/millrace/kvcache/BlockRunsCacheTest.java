package io.millrace.kvcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Long jobs with prefix caching, where every free block has content: tables still get runs, and the cache finds about as much
 * as with single blocks, taken strictly by last use.
 */
class BlockRunsCacheTest {
    private static final String SALT = "model";
    private static final int BLOCK_SIZE = 4;
    private static final int BLOCKS_PER_RUN = 4;
    private static final int NUM_LIVE = 64;
    private static final int NUM_PROMPTS = 6000;

    /** A prompt that continues a text, and what is generated for it. */
    private record Turn(int text, BlockTable table, int[] tokens, int numPrompt) {}

    private record Outcome(double hitRate, double shareOfRuns) {}

    /** 64 sequences at a time. */
    private static final class Job {
        final Random random;
        final BlockManager blocks;
        final int[][] texts;
        final boolean isConversation;
        final int meanTokens;
        final List<Turn> live = new ArrayList<>();
        final List<Integer> lengths = new ArrayList<>();
        long numPromptTokens;
        long numHits;
        long numTiles;
        long numRuns;

        /** Conversations: each turn continues what was said before. Otherwise prompts begin with one of some fixed texts. */
        Job(long seed, int numBlocks, int numTexts, int meanTokens, boolean isConversation, int blocksPerRun) {
            random = new Random(seed);
            blocks = new BlockManager(numBlocks, BLOCK_SIZE, true, 1, blocksPerRun);
            texts = new int[numTexts][0];
            this.isConversation = isConversation;
            this.meanTokens = meanTokens;
            if (!isConversation) {
                Arrays.setAll(
                        texts,
                        i -> random.ints(1 + random.nextInt(2 * meanTokens), 0, 1 << 20)
                                .toArray());
            }
        }

        Outcome run() {
            for (int begun = 0; begun < NUM_PROMPTS || !live.isEmpty(); ) {
                while (begun < NUM_PROMPTS && live.size() < NUM_LIVE) {
                    begin(begun++ >= NUM_PROMPTS / 4);
                }
                step();
            }
            blocks.checkIntegrity(List.of());
            assertEquals(blocks.numBlocks(), blocks.numFreeBlocks());
            return new Outcome((double) numHits / numPromptTokens, (double) numRuns / numTiles);
        }

        private void begin(boolean counts) {
            int text;
            do { // some are continued more often
                text = (int) (texts.length * Math.pow(random.nextDouble(), 2));
            } while (isConversation && isLive(text));
            int[] before = texts[text];
            if (before.length > 5 * meanTokens) {
                before = new int[0];
            }
            int numPrompt = before.length + 1 + random.nextInt(meanTokens);
            int[] tokens = Arrays.copyOf(before, numPrompt + 1 + random.nextInt(meanTokens));
            for (int i = before.length; i < tokens.length; i++) {
                tokens[i] = random.nextInt(1 << 20);
            }
            Turn turn = new Turn(text, new BlockTable(), tokens, numPrompt);
            int cached = blocks.allocate(turn.table, tokens, numPrompt, SALT, true, 0);
            assertTrue(cached >= 0, "there is room");
            blocks.markComputed(turn.table, tokens, cached, numPrompt, SALT);
            if (counts) {
                numPromptTokens += numPrompt;
                numHits += cached;
            }
            live.add(turn);
            lengths.add(numPrompt);
        }

        private boolean isLive(int text) {
            return live.stream().anyMatch(turn -> turn.text == text);
        }

        private void step() {
            for (int i = live.size() - 1; i >= 0; i--) {
                Turn turn = live.get(i);
                int position = lengths.get(i);
                if (position == turn.tokens.length) {
                    count(turn.table);
                    blocks.free(turn.table);
                    if (isConversation) {
                        texts[turn.text] = turn.tokens;
                    }
                    live.remove(i);
                    lengths.remove(i);
                } else {
                    assertEquals(BlockManager.WRITABLE, blocks.extend(turn.table, position, position + 1));
                    blocks.markComputed(turn.table, turn.tokens, position, position + 1, SALT);
                    lengths.set(i, position + 1);
                }
            }
        }

        private void count(BlockTable table) {
            for (int first = 0; first + BLOCKS_PER_RUN <= table.numBlocks(); first += BLOCKS_PER_RUN) {
                numTiles++;
                int i = 1;
                while (i < BLOCKS_PER_RUN && table.block(first + i) == table.block(first) + i) {
                    i++;
                }
                numRuns += i == BLOCKS_PER_RUN ? 1 : 0;
            }
        }
    }

    /** Texts' last runs have unused ends, a few blocks of the 40 to 80 that a conversation has here. */
    @ParameterizedTest
    @CsvSource({"1, 6000, 400, 32", "2, 8000, 400, 64", "3, 12000, 400, 64", "4, 40000, 2000, 64"})
    void conversationsGetRunsAndFindAlmostAsMuch(long seed, int numBlocks, int numTexts, int meanTokens) {
        Outcome plain = new Job(seed, numBlocks, numTexts, meanTokens, true, 1).run();
        Outcome runs = new Job(seed, numBlocks, numTexts, meanTokens, true, BLOCKS_PER_RUN).run();
        assertTrue(plain.shareOfRuns < 0.3, () -> "single blocks are scattered: " + plain);
        assertTrue(runs.shareOfRuns > 0.99, () -> "seed " + seed + ": " + runs);
        assertTrue(runs.hitRate > plain.hitRate - 0.02, () -> "seed " + seed + ": " + runs + ", plain " + plain);
    }

    /** Tiles that hold the end of a shared prefix and a sequence's own blocks are no runs, but all others. */
    @ParameterizedTest
    @CsvSource({"1, 6000, 10, 64", "2, 6000, 40, 64", "3, 4000, 1, 64", "4, 4000, 40, 64"})
    void promptsOfCommonPrefixesGetRunsAndFindAlmostAsMuch(long seed, int numBlocks, int numTexts, int meanTokens) {
        Outcome plain = new Job(seed, numBlocks, numTexts, meanTokens, false, 1).run();
        Outcome runs = new Job(seed, numBlocks, numTexts, meanTokens, false, BLOCKS_PER_RUN).run();
        assertTrue(plain.shareOfRuns < 0.55, () -> "single blocks are scattered: " + plain);
        assertTrue(runs.shareOfRuns > 0.88, () -> "seed " + seed + ": " + runs);
        assertTrue(runs.hitRate > plain.hitRate - 0.005, () -> "seed " + seed + ": " + runs + ", plain " + plain);
    }
}
