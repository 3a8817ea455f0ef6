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
    void everySharedKeyAndValueIsMultipliedByAllSamplesHeads() {
        for (boolean bfloat16 : new boolean[] {false, Ceilings.hasBfloat16()}) {
            try (Ceilings ceilings = new Ceilings(SHAPE, bfloat16, 2)) {
                AttentionCeiling attention = ceilings.sharedAttention(3, 50, 4);
                // 3 layers x 3 prompts x 2 KV heads; 4 samples x 2 heads of a group; keys and values of 50 tokens x 16
                assertEquals(2.0 * 18 * 8 * 2 * 50 * 16, attention.flops());
                assertTrue(attention.seconds() > 0);
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
