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
    private static final int[] UNITS = {1, 1, 2, 3};

    /** A sequence as a user of the manager keeps it. */
    private static final class Holder {
        final BlockTable table = new BlockTable();
        final String salt;
        int[] tokens;
        int numComputed;
        int numIndexed; // full computed blocks that can be found, or could where there is a cache
        Content last; // of the chain of these

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
        final int unitBlocks;
        final boolean caching;
        final Map<Integer, Content> found = new LinkedHashMap<>();
        final NaiveFreeBlocks free;

        Naive(int numBlocks, int blockSize, boolean caching, int unitBlocks, int blocksPerRun) {
            this.blockSize = blockSize;
            this.unitBlocks = unitBlocks;
            this.caching = caching;
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

        /** Blocks of whole units among the first so many tokens. */
        int wholeBlocks(int numTokens) {
            int count = 0;
            while ((count + unitBlocks) * blockSize <= numTokens) {
                count += unitBlocks;
            }
            return count;
        }

        /** Tokens that allocation finds; leaves the holder's chain at the last found content. */
        int numCached(Holder holder) {
            List<Content> chain = new ArrayList<>();
            Content content = null;
            while ((chain.size() + 1) * blockSize < holder.tokens.length) {
                content = find(text(holder, (chain.size() + 1) * blockSize), content);
                if (content == null) {
                    break;
                }
                chain.add(content);
            }
            holder.numIndexed = wholeBlocks(chain.size() * blockSize); // what is cut short is not taken at all
            holder.last = holder.numIndexed == 0 ? null : chain.get(holder.numIndexed - 1);
            return holder.numIndexed * blockSize;
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

        /** Blocks of units that became full can be found, unless another has their content. */
        void computed(Holder holder, int to) {
            for (; holder.numIndexed < wholeBlocks(to); holder.numIndexed++) {
                String text = text(holder, (holder.numIndexed + 1) * blockSize);
                Content content = find(text, holder.last);
                if (content == null) {
                    content = new Content(text, holder.last);
                    if (caching) {
                        found.put(holder.table.block(holder.numIndexed), content);
                    }
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
        int unitBlocks = UNITS[random.nextInt(UNITS.length)];
        boolean caching = random.nextInt(4) > 0;
        blocks = new BlockManager(numBlocks, blockSize, caching, unitBlocks, blocksPerRun);
        naive = new Naive(numBlocks, blockSize, caching, unitBlocks, blocksPerRun);
        holders = new ArrayList<>();
        stems = new int[][] {
            random.ints(20, 0, 3).toArray(), random.ints(20, 0, 3).toArray()
        };
        for (int step = 0; step < NUM_STEPS; step++) {
            switch (random.nextInt(7)) {
                case 0 -> allocate();
                case 6 -> allocateBeside();
                case 1 -> fork();
                case 2, 3 -> decode();
                case 4 -> guess();
                default -> free();
            }
            blocks.checkIntegrity(holders.stream().map(holder -> holder.table).toList());
            assertEquals(
                    naive.free.order(), IntStream.of(blocks.freeOrder()).boxed().toList());
            verifySlots();
            verifyUnits();
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

    /** A sibling of a common prefix, which is how prefixes are shared where there is no cache. */
    private void allocateBeside() {
        if (holders.isEmpty() || naive.caching) {
            return;
        }
        Holder sibling = holders.get(random.nextInt(holders.size()));
        int numShared = 1 + random.nextInt(sibling.numComputed);
        Holder holder = new Holder(
                sibling.salt,
                IntStream.concat(Arrays.stream(sibling.tokens, 0, numShared), random.ints(random.nextInt(6), 0, 3))
                        .toArray());
        int numTokens = holder.tokens.length;
        int expected =
                naive.wholeBlocks(Math.min(numShared, numTokens - 1)); // the last token's logits are to be computed
        int numSpare = random.nextInt(3);
        int numFree = naive.free.order().size();
        int cached = blocks.allocateBeside(holder.table, numTokens, sibling.table, numShared, numSpare);
        if (cached == BlockManager.NO_FREE_BLOCK) {
            assertEquals(0, holder.table.numBlocks());
            assertTrue(blocks.numBlocksFor(numTokens) - expected + numSpare > numFree, "what fits is given");
            return;
        }
        assertTrue(blocks.numBlocksFor(numTokens) - expected + numSpare <= numFree, "what is to be spared is");
        assertEquals(expected * naive.blockSize, cached);
        for (int i = 0; i < expected; i++) {
            assertEquals(sibling.table.block(i), holder.table.block(i));
        }
        for (int i = expected; i < holder.table.numBlocks(); i++) {
            naive.took(holder.table, i);
        }
        holder.numIndexed = expected;
        compute(holder, cached, numTokens);
        holders.add(holder);
    }

    private void compute(Holder holder, int from, int to) {
        blocks.markComputed(holder.table, holder.tokens, from, to, holder.salt);
        holder.numComputed = to;
        naive.computed(holder, to);
    }

    private void fork() {
        if (!holders.isEmpty()) {
            Holder parent = holders.get(random.nextInt(holders.size()));
            int numTokens = 1 + random.nextInt(parent.numComputed);
            if (numTokens / naive.blockSize < parent.numComputed / naive.blockSize) {
                numTokens = parent.numComputed; // only the last block may be partly used
            }
            if (naive.unitBlocks > 1) {
                numTokens = parent.numComputed;
                boolean wholeUnits = naive.wholeBlocks(numTokens) * naive.blockSize == numTokens;
                assertEquals(wholeUnits, blocks.maySharePrefix(numTokens));
                if (!wholeUnits) {
                    return;
                }
            }
            Holder child = new Holder(parent.salt, Arrays.copyOf(parent.tokens, numTokens));
            child.numComputed = numTokens;
            child.numIndexed = parent.numIndexed;
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

    /** What is rounded when a unit becomes whole is nobody else's before, nor does it change under anybody afterwards. */
    private void verifyUnits() {
        for (Holder holder : naive.unitBlocks > 1 ? holders : List.<Holder>of()) {
            for (int i = naive.wholeBlocks(holder.numComputed); i < holder.table.numBlocks(); i++) {
                assertEquals(1, blocks.refCount(holder.table.block(i)), "a unit that is not whole has one holder");
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
