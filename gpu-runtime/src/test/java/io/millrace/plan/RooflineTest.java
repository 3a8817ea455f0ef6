package io.millrace.plan;

import static io.millrace.plan.Llama3OnH100.CAPACITY;
import static io.millrace.plan.Llama3OnH100.COST;
import static io.millrace.plan.Llama3OnH100.ROOFLINE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Locale;
import java.util.OptionalDouble;
import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class RooflineTest {

    @Test
    void deviceIsTheOneOfTheFigures() {
        assertEquals(989e12, ROOFLINE.rates().gemmFlopsPerSecond());
        assertEquals(3.35e12, ROOFLINE.rates().memoryBytesPerSecond());
        assertEquals(16_060_522_496.0, COST.weightBytes());
        // The formula's second term: B·W FLOPs at 2 bytes and 2 FLOPs a parameter, and g·k a pair of tokens.
        assertEquals(COST.weightBytes(), COST.gemmFlopsPerToken());
        assertEquals(4 * COST.kvBytesPerToken(), COST.attentionFlopsPerPair());
    }

    @Test
    void capacity() {
        assertEquals(131_072, COST.kvBytesPerToken());
        assertEquals(381_469, CAPACITY.numTokens());
        assertEquals(23_841, CAPACITY.numBlocks());
        assertEquals(186, CAPACITY.numSequences(2048));
        assertEquals(46, CAPACITY.numReservedSequences(8192));
    }

    @ParameterizedTest
    @CsvSource({"1, 4.87, 205", "8, 5.44, 1472", "64, 9.92, 6450", "186, 19.70, 9442"})
    void stepTimesAtContext2048(int batchSize, String milliseconds, String tokensPerSecond) {
        assertEquals(milliseconds, fixed(ROOFLINE.stepSeconds(batchSize, 2048) * 1e3, 2));
        assertEquals(tokensPerSecond, fixed(ROOFLINE.tokensPerSecond(batchSize, 2048), 0));
        assertFalse(ROOFLINE.isComputeBound(batchSize, 2048));
    }

    @Test
    void batchOf64AtContext4096() {
        assertEquals("15.1", fixed(ROOFLINE.stepSeconds(64, 4096) * 1e3, 1));
        assertEquals(4_250, ROOFLINE.tokensPerSecond(64, 4096), 5);
    }

    @Test
    void batchOf512AtContext128IsComputeBound() {
        assertTrue(ROOFLINE.isComputeBound(512, 128));
        assertEquals("8.35", fixed(ROOFLINE.computeSeconds(512, 128, 1) * 1e3, 2));
        assertEquals("7.36", fixed(ROOFLINE.memorySeconds(512, 128) * 1e3, 2));
        assertEquals(ROOFLINE.computeSeconds(512, 128, 1), ROOFLINE.stepSeconds(512, 128));
    }

    @Test
    void gemmsTurnComputeBound() {
        assertEquals("345", rows(4096, 4096));
        assertEquals("325", rows(4096, 14336));
        assertEquals("325", rows(14336, 4096));
    }

    @Test
    void thinGemmNeverTurnsComputeBound() {
        // 576 x 192: even endless rows have 2·576·192 / (2·(576 + 192)) = 144 FLOPs a byte, of the 295 that it takes.
        assertEquals(
                OptionalDouble.empty(), ROOFLINE.computeBoundRows(new GemmShape("k, v", 576, 192), Precision.BFLOAT16));
    }

    @Test
    void freeChunkBeside64SequencesAtContext1024() {
        assertEquals(389, ROOFLINE.freeChunkTokens(64, 1024));
    }

    @Test
    void computeBoundStepHasNoFreeChunk() {
        assertEquals(0, ROOFLINE.freeChunkTokens(512, 128));
    }

    @Test
    void prefillOf2048Tokens() {
        assertEquals("34", fixed(ROOFLINE.prefillSeconds(2048) * 1e3, 0));
        assertEquals("33.26", fixed(ROOFLINE.prefillGemmSeconds(2048) * 1e3, 2));
        assertEquals("1.11", fixed(ROOFLINE.prefillAttentionSeconds(0, 2048) * 1e3, 2));
        assertEquals("268", fixed(2048 * COST.kvBytesPerToken() / 1e6, 0));
        assertEquals("5.4", fixed(new PreemptionCost(ROOFLINE, 50e9).swapSecondsOneWay(2048) * 1e3, 1));
    }

    @Test
    void shortPrefillTakesAsLongAsReadingTheWeights() {
        assertEquals((COST.weightBytes() + COST.kvBytesPerToken()) / 3.35e12, ROOFLINE.prefillSeconds(1));
    }

    @ParameterizedTest
    @CsvSource({
        "llama-2-7b, 524288, 4096, 23",
        "llama-3-8b, 131072, 2048, 186",
        "llama-3-70b, 327680, 4096, 37",
    })
    void kvOfOtherModelsIn50Gigabytes(String name, long kvBytesPerToken, int contextTokens, long numSequences) {
        ModelCost cost = ModelCost.of(NamedShapes.find(name).orElseThrow(), Precision.BFLOAT16);
        assertEquals(kvBytesPerToken, cost.kvBytesPerToken());
        assertEquals(
                numSequences, new KvCapacity(50_000_000_000L, cost.kvBytesPerToken(), 16).numSequences(contextTokens));
    }

    @Test
    void sharedPromptTakesSevenBlocksAndNineOnceWrittenTo() {
        KvCapacity capacity = new KvCapacity(1 << 20, 16, 16);
        assertEquals(6 + 3, capacity.numGroupBlocks(100, 1, 3));
        assertEquals(6 + 1, capacity.numGroupBlocks(100, 1, 1));
        assertEquals(6, capacity.numGroupBlocks(96, 0, 3));
    }

    @Test
    void attentionRateCountsForAttentionOnly() {
        Roofline halved = new Roofline(COST, new DeviceRates(3.35e12, 989e12, 494.5e12));
        double gemms = 100 * COST.gemmFlopsPerToken() / 989e12;
        double attention = 100 * 2048 * COST.attentionFlopsPerPair() / 989e12;
        assertEquals(gemms + 2 * attention, halved.computeSeconds(100, 2048, 1), 1e-15);
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5})
    void growsWithBatchAndContextAndShrinksWithRates(long seed) {
        Random random = new Random(seed);
        for (int i = 0; i < 500; i++) {
            Roofline roofline = random(random);
            Roofline faster = new Roofline(roofline.cost(), roofline.rates().times(2));
            long batch = 1 + random.nextInt(2000);
            long context = 1 + random.nextInt(20_000);
            String where = "seed " + seed + " round " + i + ": " + roofline + " B = " + batch + " C = " + context;

            double step = roofline.stepSeconds(batch, context);
            assertTrue(roofline.stepSeconds(batch + 1, context) > step, where);
            assertTrue(roofline.stepSeconds(batch, context + 1) > step, where);
            assertTrue(roofline.stepSeconds(batch, context, 3) >= step, where);
            assertEquals(step / 2, faster.stepSeconds(batch, context), step * 1e-12, where);
            assertTrue(
                    roofline.tokensPerSecond(batch + 1, context)
                            >= roofline.tokensPerSecond(batch, context) * (1 - 1e-12),
                    where);
            assertTrue(roofline.prefillSeconds(context + 1) > roofline.prefillSeconds(context), where);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {11, 12, 13, 14, 15})
    void thresholdsAreWhereTheFormulasCross(long seed) {
        Random random = new Random(seed);
        for (int i = 0; i < 500; i++) {
            Roofline roofline = random(random);
            long context = 1 + random.nextInt(4000);
            String where = "seed " + seed + " round " + i + ": " + roofline + " C = " + context;

            OptionalLong batch = roofline.computeBoundBatch(context);
            if (batch.isPresent() && batch.getAsLong() < 1L << 40) {
                assertTrue(roofline.isComputeBound(batch.getAsLong() + 1, context), where + batch);
                assertFalse(
                        batch.getAsLong() > 2 && roofline.isComputeBound(batch.getAsLong() - 2, context),
                        where + batch);
            } else if (batch.isEmpty()) {
                assertFalse(roofline.isComputeBound(1_000_000, context), where);
            }

            double limit = roofline.stepSeconds(1 + random.nextInt(500), context) * (1 + random.nextDouble());
            long largest = roofline.largestBatch(context, limit);
            assertTrue(largest >= 1 && roofline.stepSeconds(largest, context) <= limit * (1 + 1e-9), where);
            assertTrue(roofline.stepSeconds(largest + 1, context) >= limit * (1 - 1e-9), where);

            long sequences = 1 + random.nextInt(300);
            long chunk = roofline.freeChunkTokens(sequences, context);
            double memory = roofline.memorySeconds(sequences, context);
            if (chunk > 0) {
                assertTrue(roofline.prefillGemmSeconds(sequences + chunk) <= memory * (1 + 1e-9), where);
            }
            assertTrue(roofline.prefillGemmSeconds(sequences + chunk + 1) >= memory * (1 - 1e-9), where);
        }
    }

    @Test
    void noBatchMeetsALimitBelowTheWeightsReadTime() {
        assertEquals(0, ROOFLINE.largestBatch(2048, 4.7e-3));
        assertEquals(1, ROOFLINE.largestBatch(2048, 4.9e-3));
    }

    private static Roofline random(Random random) {
        List<String> names = NamedShapes.names();
        ModelShape shape =
                NamedShapes.find(names.get(random.nextInt(names.size()))).orElseThrow();
        Precision precision = random.nextBoolean() ? Precision.BFLOAT16 : Precision.FLOAT32;
        double bandwidth = Math.pow(10, 10 + 3 * random.nextDouble());
        double flops = bandwidth * (1 + 400 * random.nextDouble());
        return new Roofline(
                ModelCost.of(shape, precision), new DeviceRates(bandwidth, flops, flops * (0.1 + random.nextDouble())));
    }

    private static String rows(int numInputs, int numOutputs) {
        return fixed(
                ROOFLINE.computeBoundRows(new GemmShape("", numInputs, numOutputs), Precision.BFLOAT16)
                        .orElseThrow(),
                0);
    }

    static String fixed(double value, int numDecimals) {
        return String.format(Locale.ROOT, "%." + numDecimals + "f", value);
    }
}
