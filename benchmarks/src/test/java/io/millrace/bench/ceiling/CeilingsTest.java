package io.millrace.bench.ceiling;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.plan.ModelShape;
import org.junit.jupiter.api.Test;

class CeilingsTest {
    private static final ModelShape SHAPE = new ModelShape("small", 500, 64, 3, 4, 2, 16, 96, true, 128, 512);

    @Test
    void everyProductOfAStepIsCountedOnce() {
        for (boolean bfloat16 : new boolean[] {false, Ceilings.hasBfloat16()}) {
            try (Ceilings ceilings = new Ceilings(SHAPE, bfloat16, 2)) {
                GemmCeiling gemms = ceilings.gemms(5, 2);
                long queryKeyValue = 64 * (64 + 2 * 32);
                long rest = 64 * 64 + 64 * 2 * 96 + 96 * 64; // in the last of 3 layers only where logits are wanted
                assertEquals(2.0 * (5 * 3 * queryKeyValue + (5 * 2 + 2) * rest + 2 * 64 * 500), gemms.flops());
                assertTrue(gemms.seconds() > 0);
                assertSame(gemms, ceilings.gemms(5, 2));
                assertTrue(gemms.describe().contains(bfloat16 ? "bf16 to" : "f32 to f32"), gemms.describe());
                assertTrue(ceilings.gemms(1, 1).seconds() > 0);
                GemmCeiling fixed = ceilings.fixedGemms(5, 1, 2);
                assertEquals(gemms.flops(), fixed.flops());
                assertTrue(fixed.describe().startsWith("columns by thread"), fixed.describe());
                assertTrue(fixed.seconds() > 0);
                double inFourCalls = 2.0 * (20 * 3 * queryKeyValue + (20 * 2 + 2) * rest + 2 * 64 * 500);
                assertEquals(inFourCalls, ceilings.fixedGemms(5, 4, 2).flops());
            }
        }
    }

    @Test
    void manyRowsAreTheSameProductsInHoweverManyCalls() {
        try (Ceilings ceilings = new Ceilings(SHAPE, false, 2)) {
            long queryKeyValue = 64 * (64 + 2 * 32);
            long rest = 64 * 64 + 64 * 2 * 96 + 96 * 64;
            assertEquals(
                    2.0 * (512 * 3 * queryKeyValue + (512 * 2 + 2) * rest + 2 * 64 * 500),
                    ceilings.gemms(512, 2).flops());
        }
    }

    @Test
    void operationsOfASmallStepsAttentionAreThoseCountedByHand() {
        ModelShape tiny = new ModelShape("tiny", 500, 32, 2, 2, 1, 16, 96, true, 128, 512);
        try (Ceilings ceilings = new Ceilings(tiny, false, 2)) {
            // 2 samples x 2 heads = 4 queries, each with 3 keys: 12 scores of 16 multiplications and additions, 32
            // operations, are 384; as many with values: 768; in each of 2 layers
            assertEquals(1536, ceilings.sharedAttentionProducts(1, 3, 2).flops());
            assertEquals(1536, ceilings.sharedAttention(1, 3, 2).flops());
            // 2 heads' queries of 2 tokens, each with 2 keys, in one tile: 8 scores x 32, twice; the last layer is
            // left out
            assertEquals(512, ceilings.promptAttention(2).flops());
        }
    }

    @Test
    void everySharedKeyAndValueIsMultipliedByAllSamplesHeads() {
        int numPrompts = 3;
        int promptTokens = 50;
        int numSamples = 4;
        long count = 0;
        for (int layer = 0; layer < SHAPE.numLayers(); layer++) {
            for (int sequence = 0; sequence < numPrompts * numSamples; sequence++) {
                for (int head = 0; head < SHAPE.numQueryHeads(); head++) {
                    count += attentionOfOneQuery(promptTokens);
                }
            }
        }
        for (boolean bfloat16 : new boolean[] {false, Ceilings.hasBfloat16()}) {
            try (Ceilings ceilings = new Ceilings(SHAPE, bfloat16, 2)) {
                AttentionCeiling products = ceilings.sharedAttentionProducts(numPrompts, promptTokens, numSamples);
                assertEquals(count, products.flops());
                assertTrue(products.seconds() > 0);
                assertTrue(products.tried().isEmpty());
                AttentionCeiling attention = ceilings.sharedAttention(numPrompts, promptTokens, numSamples);
                assertEquals(count, attention.flops());
                assertTrue(attention.seconds() > 0);
                assertEquals(3, attention.tried().size());
            }
        }
    }

    @Test
    void aPromptsTokensMeetTheirTilesKeysAndAllBefore() {
        int numTokens = 150;
        for (boolean bfloat16 : new boolean[] {false, Ceilings.hasBfloat16()}) {
            try (Ceilings ceilings = new Ceilings(SHAPE, bfloat16, 2)) {
                AttentionCeiling attention = ceilings.promptAttention(numTokens);
                int tile = attention.describe().endsWith("32 tokens a tile") ? 32 : 64;
                long count = 0;
                for (int layer = 0; layer < SHAPE.numLayers() - 1; layer++) {
                    for (int token = 0; token < numTokens; token++) {
                        int endOfTile = Math.min(numTokens, (token / tile + 1) * tile);
                        for (int head = 0; head < SHAPE.numQueryHeads(); head++) {
                            count += attentionOfOneQuery(endOfTile);
                        }
                    }
                }
                assertEquals(count, attention.flops());
                assertTrue(attention.seconds() > 0);
                assertEquals(6, attention.tried().size());
            }
        }
    }

    private static long attentionOfOneQuery(int numKeys) {
        long count = 0;
        for (int key = 0; key < numKeys; key++) {
            for (int dimension = 0; dimension < SHAPE.headDim(); dimension++) {
                count += 2; // of the score
                count += 2; // of the weighted values
            }
        }
        return count;
    }

    @Test
    void aRowOfLogitsIsEnoughForAnyNumberOfThreads() {
        try (Ceilings ceilings = new Ceilings(SHAPE, false, 2)) {
            for (int rows : new int[] {1, 5}) {
                LogitsCeiling logits = ceilings.logits(rows);
                assertTrue(logits.seconds() > 0);
                assertEquals(2, logits.tried().size());
            }
        }
    }

    @Test
    void ratesAreThoseOfAMachine() {
        try (Ceilings ceilings = new Ceilings(SHAPE, false, 2)) {
            double bytesPerSecond = ceilings.readBandwidth().bytesPerSecond();
            assertTrue(bytesPerSecond > 1e8 && bytesPerSecond < 1e13, bytesPerSecond + " bytes/s");
            double flops = ceilings.float32Rate().flopsPerSecond();
            assertTrue(flops > 1e8 && flops < 1e15, flops + " FLOP/s");
        }
    }
}
