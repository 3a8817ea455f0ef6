package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.BatchInput;
import io.millrace.backend.KvCacheDtype;
import io.millrace.backend.LogitsRow;
import io.millrace.kernels.Bfloat16;
import io.millrace.kernels.KernelChoice;
import io.millrace.kernels.Kernels;
import io.millrace.kernels.ScalarKernels;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The matrix library's products of attention give the kernels' bits, or are not used and say why. And so do chunks of prompts
 * and samples with common blocks, cut into pieces as they come, as each token by itself.
 */
class AttentionProductsTest {
    private static final int HEADS_PER_GROUP = 3;
    private static final int KV_HEADS = 2;

    private final Kernels kernels = new ScalarKernels();

    @BeforeEach
    void callOneDnnAlone() {
        OneDnn.useOneThreadPerCall();
    }

    @ParameterizedTest
    @ValueSource(ints = {32, 64, 96, 128, 160})
    void productsHaveTheKernelsBits(int headDim) {
        try (AttentionShapes shapes = AttentionShapes.probe(headDim, NumberFormat.BFLOAT16, kernels)) {
            if (OneDnn.instructionSet().equals("avx512_bf16")) {
                assertTrue(shapes.areUsable(), shapes.remark());
            }
            if (!shapes.areUsable()) {
                assertTrue(shapes.remark().contains("own kernels, which take longer"), shapes.remark());
            }
            for (int seed = 0; seed < 20; seed++) {
                compare(
                        shapes,
                        NumberFormat.BFLOAT16,
                        KvCacheDtype.AUTO,
                        new Random(1000L * headDim + seed),
                        "seed " + seed);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(KvCacheDtype.class)
    void piecesOfFloatsHaveTheBitsOfSingleTokens(KvCacheDtype dtype) {
        for (int headDim : new int[] {32, 64, 80, 128}) {
            try (AttentionShapes none = AttentionShapes.probe(headDim, NumberFormat.FLOAT32, kernels)) {
                for (int seed = 0; seed < 15; seed++) {
                    compare(none, NumberFormat.FLOAT32, dtype, new Random(1000L * headDim + seed), "seed " + seed);
                }
            }
        }
    }

    /**
     * Scores that hardly ever raise a maximum or often do; sometimes numbers that are not finite, or so small that their products
     * are 0.
     */
    private static void compare(
            AttentionShapes shapes, NumberFormat format, KvCacheDtype dtype, Random random, String what) {
        int headDim = shapes.headDim();
        BatchInput batch = randomBatch(random);
        int numBlocks = 1
                + Arrays.stream(batch.blockTables())
                        .flatMapToInt(Arrays::stream)
                        .max()
                        .getAsInt();
        KvPool pool = pool(headDim, format, dtype, numBlocks);
        fill(pool, headDim, random);
        float scale = random.nextBoolean() ? 0.2f : 6f;
        float[] queries = new float[batch.numTokens() * KV_HEADS * HEADS_PER_GROUP * headDim];
        for (int i = 0; i < queries.length; i++) {
            float query = scale * (float) random.nextGaussian();
            queries[i] = pool.isPaired() ? Bfloat16.widen(Bfloat16.roundFactor(query)) : query;
        }
        AttentionShapes none = AttentionShapes.probe(headDim, NumberFormat.FLOAT32, KERNELS);
        assertFalse(none.areUsable());
        float[] expected = attend(KERNELS, none, pool, apart(batch), queries, false);
        assertSameBits(expected, attend(KERNELS, none, pool, batch, queries, true), what + " by kernels");
        if (shapes.areUsable()) {
            assertSameBits(expected, attend(KERNELS, shapes, pool, batch, queries, true), what + " by products");
            assertSameBits(
                    expected, attend(KERNELS, shapes, pool, batch, queries, false), what + " by products, unshared");
        }
    }

    private static void fill(KvPool pool, int headDim, Random random) {
        int keyElements = headDim * Kernels.BLOCK_SIZE;
        boolean areSomeTiny = random.nextInt(3) == 0;
        for (int block = 0; block < pool.numBlocks(); block++) {
            for (int head = 0; head < KV_HEADS; head++) {
                float[] unit = new float[2 * keyElements];
                for (int i = 0; i < unit.length; i++) {
                    boolean isTiny = areSomeTiny && i >= keyElements && i % headDim < 3;
                    unit[i] = isTiny ? -Float.MIN_VALUE * random.nextInt(9) : (float) random.nextGaussian();
                }
                pool.writeUnit(0, block, head, unit);
            }
        }
        if (random.nextInt(3) == 0) {
            float[] unit = new float[2 * keyElements];
            int block = random.nextInt(pool.numBlocks());
            int head = random.nextInt(KV_HEADS);
            pool.readUnit(0, block, head, unit);
            unit[keyElements + random.nextInt(keyElements)] =
                    random.nextBoolean() ? Float.NaN : Float.NEGATIVE_INFINITY;
            pool.writeUnit(0, block, head, unit);
        }
    }

    private static final Kernels KERNELS = KernelChoice.best().kernels();

    private static KvPool pool(int headDim, NumberFormat format, KvCacheDtype dtype, int numBlocks) {
        KvPool one = new KvPool(1, KV_HEADS, headDim, format, dtype, 1 << 20);
        return new KvPool(1, KV_HEADS, headDim, format, dtype, one.bytesPerBlock() * numBlocks);
    }

    /** What attention gives for all tokens, [tokens][query heads × head dim]. */
    private static float[] attend(
            Kernels kernels,
            AttentionShapes shapes,
            KvPool pool,
            BatchInput batch,
            float[] queries,
            boolean sharesReads) {
        int headDim = queries.length / batch.numTokens() / (KV_HEADS * HEADS_PER_GROUP);
        int width = KV_HEADS * HEADS_PER_GROUP * headDim;
        AttentionPlan plan = new AttentionPlan(KV_HEADS, HEADS_PER_GROUP, 1, sharesReads);
        AttentionState state = new AttentionState(KV_HEADS * HEADS_PER_GROUP, headDim);
        TokenRows tokens = new TokenRows();
        tokens.setAll(batch);
        plan.build(batch, tokens);
        state.ensureSlots(plan.numStateSlots());
        float[] attended = new float[queries.length];
        try (ActivationBuffer output = new ActivationBuffer(batch.numTokens(), width, NumberFormat.FLOAT32, kernels);
                AttentionThread thread = new AttentionThread(
                        kernels,
                        pool,
                        plan.maxTokensPerPiece(),
                        state,
                        shapes,
                        headDim,
                        KV_HEADS,
                        HEADS_PER_GROUP,
                        width)) {
            for (int level = 0; level < plan.numLevels(); level++) {
                int numUnits = plan.numPieces(level) * KV_HEADS;
                thread.run(plan, level, 0, numUnits, 0, queries, batch.positions(), output);
            }
            for (int token = 0; token < batch.numTokens(); token++) {
                float[] row = new float[width];
                output.get(token, 0, row, 0, width);
                System.arraycopy(row, 0, attended, token * width, width);
            }
        }
        return attended;
    }

    /** A chunk of a prompt, and two families of samples, the second of which begins with blocks of the first. */
    private static BatchInput randomBatch(Random random) {
        List<int[]> tables = new ArrayList<>();
        List<Integer> numNew = new ArrayList<>();
        List<Integer> lengths = new ArrayList<>();
        int[] nextBlock = {0};
        int length = 1 + random.nextInt(700);
        tables.add(blocks(nextBlock, (length + 15) / 16));
        lengths.add(length);
        numNew.add(1 + random.nextInt(Math.min(length, 230)));
        int[] common = blocks(nextBlock, 4 * random.nextInt(7));
        for (int family = 0; family < 2; family++) {
            int[] shared = concatenated(common, blocks(nextBlock, random.nextInt(24)));
            int numMembers = 1 + random.nextInt(20);
            for (int member = 0; member < numMembers; member++) {
                int[] table = concatenated(shared, blocks(nextBlock, 1 + random.nextInt(6)));
                tables.add(table);
                int total = 16 * table.length - random.nextInt(16);
                lengths.add(total);
                numNew.add(random.nextInt(8) == 0 ? Math.min(total, 1 + random.nextInt(16)) : 1);
            }
        }
        return batch(tables, lengths, numNew);
    }

    private static int[] blocks(int[] next, int count) {
        next[0] += count;
        return IntStream.range(next[0] - count, next[0]).toArray();
    }

    private static int[] concatenated(int[] a, int[] b) {
        return IntStream.concat(Arrays.stream(a), Arrays.stream(b)).toArray();
    }

    /** The same tokens, each a sequence of its own. */
    private static BatchInput apart(BatchInput batch) {
        List<int[]> tables = new ArrayList<>();
        List<Integer> lengths = new ArrayList<>();
        List<Integer> numNew = new ArrayList<>();
        for (int s = 0; s < batch.numSequences(); s++) {
            for (int token = batch.queryStarts()[s]; token < batch.queryStarts()[s + 1]; token++) {
                tables.add(batch.blockTables()[s]);
                lengths.add(batch.positions()[token] + 1);
                numNew.add(1);
            }
        }
        return batch(tables, lengths, numNew);
    }

    private static BatchInput batch(List<int[]> tables, List<Integer> lengths, List<Integer> numNew) {
        int numSequences = tables.size();
        int[] starts = new int[numSequences + 1];
        for (int s = 0; s < numSequences; s++) {
            starts[s + 1] = starts[s] + numNew.get(s);
        }
        int numTokens = starts[numSequences];
        int[] positions = new int[numTokens];
        List<LogitsRow> rows = new ArrayList<>();
        for (int s = 0; s < numSequences; s++) {
            for (int token = starts[s]; token < starts[s + 1]; token++) {
                positions[token] = lengths.get(s) - starts[s + 1] + token;
            }
            rows.add(LogitsRow.score(starts[s + 1] - 1, 0, 0));
        }
        int[] none = new int[0];
        return new BatchInput(
                numTokens,
                new int[numTokens],
                positions,
                new int[numTokens],
                numSequences,
                starts,
                lengths.stream().mapToInt(length -> length).toArray(),
                tables.toArray(int[][]::new),
                rows,
                0,
                none,
                none);
    }

    @Test
    void headsThatTheLibraryCannotTakeAreLeftToTheKernels() {
        try (AttentionShapes shapes = AttentionShapes.probe(80, NumberFormat.BFLOAT16, kernels)) {
            assertFalse(shapes.areUsable());
            assertTrue(shapes.remark().contains("multiple of 32 elements, the model's have 80"), shapes.remark());
        }
        try (AttentionShapes shapes = AttentionShapes.probe(64, NumberFormat.FLOAT32, kernels)) {
            assertFalse(shapes.areUsable());
            assertEquals("", shapes.remark());
        }
    }

    private static void assertSameBits(float[] expected, float[] actual, String what) {
        for (int i = 0; i < expected.length; i++) {
            if (Float.floatToIntBits(expected[i]) != Float.floatToIntBits(actual[i])) {
                throw new AssertionError(what + ": element " + i + " is " + actual[i] + " and not " + expected[i]);
            }
        }
    }
}
