package io.millrace.kvcache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Random walks against a naive model: what each block holds, as text, and in which order free blocks are to be taken. */
class BlockManagerRandomTest {
    private static final int NUM_WALKS = 200;
    private static final int NUM_STEPS = 300;
    private static final int[] RUNS = {1, 2, 3, 4};

    /** A sequence as a user of the manager keeps it. */
    private static final class Holder {
        final BlockTable table = new BlockTable();
        final String salt;
        int[] tokens;
        int numComputed;
        Content last; // of the chain of full computed blocks

        Holder(String salt, int[] tokens) {
            this.salt = salt;
            this.tokens = tokens;
        }
    }

    /** A content that can be found: its text, salt included, and the content it continues. */
    private record Content(String text, Content parent) {
        boolean is(String otherText, Content otherParent) {
            return text.equals(otherText) && parent == otherParent;
        }
    }

    /** Contents of blocks as plain text, free blocks as plain lists. */
    private static final class Naive {
        final int blockSize;
        final Map<Integer, Content> found = new LinkedHashMap<>();
        final NaiveFreeBlocks free;

        Naive(int numBlocks, int blockSize, int blocksPerRun) {
            this.blockSize = blockSize;
            free = new NaiveFreeBlocks(numBlocks, blocksPerRun);
        }

        String text(Holder holder, int numTokens) {
            return holder.salt + "|" + Arrays.toString(Arrays.copyOf(holder.tokens, numTokens));
        }

        Content find(String text, Content parent) {
            return found.values().stream()
                    .filter(content -> content.is(text, parent))
                    .findFirst()
                    .orElse(null);
        }

        /** Tokens that allocation finds; leaves the holder's chain at the last found content. */
        int numCached(Holder holder) {
            int count = 0;
            while ((count + 1) * blockSize < holder.tokens.length) {
                Content content = find(text(holder, (count + 1) * blockSize), holder.last);
                if (content == null) {
                    break;
                }
                holder.last = content;
                count++;
            }
            return count * blockSize;
        }

        /** Whether a table holds the block that a text is found in. */
        boolean isHeld(String text) {
            return found.entrySet().stream()
                    .anyMatch(entry -> entry.getValue().text().equals(text) && !free.contains(entry.getKey()));
        }

        /** The table took its block of an index. */
        void took(BlockTable table, int index) {
            int block = table.block(index);
            assertEquals(
                    free.take(index == 0 ? null : table.block(index - 1), index),
                    block,
                    "the block that is due is taken");
            found.remove(block);
        }

        void freed(int block) {
            free.add(block, found.containsKey(block));
        }

        /** Blocks that became full can be found, unless another has their content. */
        void computed(Holder holder, int from, int to) {
            for (int i = from / blockSize; (i + 1) * blockSize <= to; i++) {
                String text = text(holder, (i + 1) * blockSize);
                Content content = find(text, holder.last);
                if (content == null) {
                    content = new Content(text, holder.last);
                    found.put(holder.table.block(i), content);
                }
                holder.last = content;
            }
        }
    }

    private Random random;
    private BlockManager blocks;
    private Naive naive;
    private List<Holder> holders;
    private int[][] stems;

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6})
    void agreesWithTheNaiveModel(long firstSeed) {
        for (long seed = firstSeed * 1000; seed < firstSeed * 1000 + NUM_WALKS; seed++) {
            try {
                walk(seed);
            } catch (RuntimeException | AssertionError e) {
                throw new AssertionError("seed " + seed + ": " + e.getMessage(), e);
            }
        }
    }

    private void walk(long seed) {
        random = new Random(seed);
        int blockSize = 1 + random.nextInt(5);
        int numBlocks = 5 + random.nextInt(40);
        int blocksPerRun = RUNS[random.nextInt(RUNS.length)];
        blocks = new BlockManager(numBlocks, blockSize, true, 1, blocksPerRun);
        naive = new Naive(numBlocks, blockSize, blocksPerRun);
        holders = new ArrayList<>();
        stems = new int[][] {
            random.ints(20, 0, 3).toArray(), random.ints(20, 0, 3).toArray()
        };
        for (int step = 0; step < NUM_STEPS; step++) {
            switch (random.nextInt(6)) {
                case 0 -> allocate();
                case 1 -> fork();
                case 2, 3 -> decode();
                case 4 -> guess();
                default -> free();
            }
            blocks.checkIntegrity(holders.stream().map(holder -> holder.table).toList());
            assertEquals(
                    naive.free.order(), IntStream.of(blocks.freeOrder()).boxed().toList());
            verifySlots();
        }
    }

    private void allocate() {
        int[] stem = stems[random.nextInt(2)];
        Holder holder =
                new Holder(random.nextInt(4) == 0 ? "b" : "a", Arrays.copyOf(stem, 1 + random.nextInt(stem.length)));
        int expected = naive.numCached(holder);
        int cached = blocks.allocate(holder.table, holder.tokens, holder.tokens.length, holder.salt, true, 0);
        if (cached == BlockManager.NO_FREE_BLOCK) {
            assertEquals(0, holder.table.numBlocks());
            int numFoundHeld = (int) IntStream.range(0, expected / naive.blockSize)
                    .filter(i -> naive.isHeld(naive.text(holder, (i + 1) * naive.blockSize)))
                    .count();
            assertTrue(
                    blocks.numBlocksFor(holder.tokens.length) - numFoundHeld
                            > naive.free.order().size(),
                    "what fits is given");
            return;
        }
        assertEquals(expected, cached);
        for (int i = 0; i < cached / naive.blockSize; i++) {
            int block = holder.table.block(i);
            assertEquals(
                    naive.text(holder, (i + 1) * naive.blockSize),
                    naive.found.get(block).text());
            naive.free.remove(block);
        }
        for (int i = cached / naive.blockSize; i < holder.table.numBlocks(); i++) {
            naive.took(holder.table, i);
        }
        compute(holder, cached, holder.tokens.length);
        holders.add(holder);
    }

    private void compute(Holder holder, int from, int to) {
        blocks.markComputed(holder.table, holder.tokens, from, to, holder.salt);
        holder.numComputed = to;
        naive.computed(holder, from, to);
    }

    private void fork() {
        if (!holders.isEmpty()) {
            Holder parent = holders.get(random.nextInt(holders.size()));
            int numTokens = 1 + random.nextInt(parent.numComputed);
            if (numTokens / naive.blockSize < parent.numComputed / naive.blockSize) {
                numTokens = parent.numComputed; // only the last block may be partly used
            }
            Holder child = new Holder(parent.salt, Arrays.copyOf(parent.tokens, numTokens));
            child.numComputed = numTokens;
            child.last = parent.last;
            blocks.fork(child.table, parent.table, numTokens);
            holders.add(child);
        }
    }

    private void decode() {
        if (holders.isEmpty()) {
            return;
        }
        Holder holder = holders.get(random.nextInt(holders.size()));
        int position = holder.numComputed;
        holder.tokens = Arrays.copyOf(holder.tokens, position + 1);
        holder.tokens[position] = random.nextInt(2);
        int numBefore = holder.table.numBlocks();
        int result = blocks.extend(holder.table, position, position + 1);
        if (result == BlockManager.NO_FREE_BLOCK) {
            assertTrue(naive.free.order().isEmpty());
            holder.tokens = Arrays.copyOf(holder.tokens, position);
            return;
        }
        if (result != BlockManager.WRITABLE || holder.table.numBlocks() > numBefore) {
            naive.took(holder.table, position / naive.blockSize);
        }
        int block = holder.table.block(position / naive.blockSize);
        assertEquals(1, blocks.refCount(block), "a block is written by one sequence alone");
        compute(holder, position, position + 1);
    }

    /** Grows for tokens that are then given up. */
    private void guess() {
        if (holders.isEmpty()) {
            return;
        }
        Holder holder = holders.get(random.nextInt(holders.size()));
        int numBefore = holder.table.numBlocks();
        int end = holder.numComputed + random.nextInt(3 * naive.blockSize);
        int numFree = naive.free.order().size();
        if (!blocks.tryGrow(holder.table, end, 0)) {
            assertTrue(blocks.numBlocksFor(end) - numBefore > numFree, "what fits is given");
            return;
        }
        for (int i = numBefore; i < holder.table.numBlocks(); i++) {
            naive.took(holder.table, i);
        }
        int[] ids = ids(holder.table);
        blocks.checkIntegrity(holders.stream().map(each -> each.table).toList());
        blocks.truncate(holder.table, holder.numComputed);
        for (int i = ids.length - 1; i >= numBefore; i--) {
            naive.freed(ids[i]);
        }
        if (ids.length > numBefore) {
            naive.free.reserveBehind(ids[numBefore - 1], numBefore - 1);
        }
    }

    private static int[] ids(BlockTable table) {
        return IntStream.range(0, table.numBlocks()).map(table::block).toArray();
    }

    private void free() {
        if (!holders.isEmpty()) {
            Holder holder = holders.remove(random.nextInt(holders.size()));
            int[] ids = ids(holder.table);
            blocks.free(holder.table);
            for (int i = ids.length - 1; i >= 0; i--) {
                if (blocks.refCount(ids[i]) == 0) {
                    naive.freed(ids[i]);
                }
            }
        }
    }

    private void verifySlots() {
        Map<Integer, Integer> filled = new LinkedHashMap<>();
        for (Holder holder : holders) {
            for (int i = 0; i < holder.table.numBlocks(); i++) {
                int count = Math.min(naive.blockSize, holder.numComputed - i * naive.blockSize);
                filled.merge(holder.table.block(i), count, Math::max);
            }
        }
        assertTrue(blocks.numUsedSlots()
                >= filled.values().stream().mapToInt(Integer::intValue).sum());
    }
}
