package io.millrace.plan;

import static io.millrace.plan.Llama3OnH100.ROOFLINE;
import static io.millrace.plan.RooflineTest.fixed;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.OptionalLong;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CostModelsTest {

    @Test
    void swapBeatsRecomputeOf1500Tokens() {
        PreemptionCost cost = new PreemptionCost(ROOFLINE, 50e9);
        assertEquals("4", fixed(cost.swapSecondsOneWay(1500) * 1e3, 0));
        assertEquals("24", fixed(ROOFLINE.prefillGemmSeconds(1500) * 1e3, 0));
        // Causal attention adds 0.6 ms to the GEMMs' 24.36.
        assertEquals("24.96", fixed(cost.recomputeSeconds(1500) * 1e3, 2));
        assertEquals(PreemptionCost.Restore.SWAP, cost.cheaper(1500));
    }

    @Test
    void recomputeBeatsASlowLink() {
        assertEquals(PreemptionCost.Restore.RECOMPUTE, new PreemptionCost(ROOFLINE, 10e9).cheaper(1500));
    }

    @ParameterizedTest
    @CsvSource({"2, 1.88", "3, 2.04", "4, 2.10", "5, 2.11", "6, 2.08", "8, 1.97"})
    void speculationTable(int numDraftTokens, String speedup) {
        assertEquals(speedup, fixed(new SpeculationCost(0.15, 0.8).speedup(numDraftTokens), 2));
    }

    @ParameterizedTest
    @CsvSource({"0.8, 4, 3.3616", "0.6, 3, 2.176", "0, 5, 1", "1, 5, 6"})
    void tokensPerPassAsSimulated(double acceptanceRate, int numDraftTokens, double expected) {
        SpeculationCost cost = new SpeculationCost(0, acceptanceRate);
        assertEquals(expected, cost.tokensPerPass(numDraftTokens), 1e-12);

        Random random = new Random(42);
        int numPasses = 200_000;
        long numTokens = 0;
        for (int pass = 0; pass < numPasses; pass++) {
            int numAccepted = 0;
            while (numAccepted < numDraftTokens && random.nextDouble() < acceptanceRate) {
                numAccepted++;
            }
            numTokens += numAccepted + 1;
        }
        assertEquals(expected, (double) numTokens / numPasses, 0.02);
    }

    @Test
    void speculationIsOffWhereStepsAreComputeBound() {
        SpeculationCost cost = new SpeculationCost(0.15, 0.8);
        assertEquals(5, cost.bestNumDraftTokens(8, ROOFLINE, 1, 2048));
        assertTrue(ROOFLINE.isComputeBound(512, 128));
        assertEquals(0, cost.bestNumDraftTokens(8, ROOFLINE, 512, 128));
        assertTrue(cost.speedup(4, ROOFLINE, 512, 128) < 1);
    }

    @Test
    void draftThatIsNeverRightIsOff() {
        assertEquals(0, new SpeculationCost(0.15, 0).bestNumDraftTokens(8, ROOFLINE, 1, 2048));
        assertEquals(0, new SpeculationCost(1, 0.9).bestNumDraftTokens(8, ROOFLINE, 1, 2048));
    }

    @Test
    void speculationRefusesWhatIsNoProbability() {
        InvalidPlanException e = assertThrows(InvalidPlanException.class, () -> new SpeculationCost(0.1, 1.2));
        assertEquals("option --acceptance-rate = 1.2: must lie in [0, 1]; try 0.8", e.getMessage());
    }

    @Test
    void tierCrossover() {
        TierCost slow = new TierCost(ROOFLINE, 2e9);
        long crossover = slow.crossoverTokens().orElseThrow();
        assertEquals(185_984, crossover);
        assertTrue(slow.loadSeconds(crossover) < slow.computeSeconds(0, crossover));
        assertTrue(slow.loadSeconds(crossover - 1) >= slow.computeSeconds(0, crossover - 1));

        assertEquals("8.07", fixed(slow.alwaysLoadBytesPerSecond() / 1e9, 2));
        assertEquals(OptionalLong.of(1), new TierCost(ROOFLINE, 8.08e9).crossoverTokens());
        assertTrue(new TierCost(ROOFLINE, 8.06e9).crossoverTokens().orElseThrow() > 1);
    }

    @ParameterizedTest
    @ValueSource(longs = {21, 22, 23})
    void bothSidesMeetWhereAnExhaustiveSearchSays(long seed) {
        Random random = new Random(seed);
        for (int i = 0; i < 200; i++) {
            TierCost tier = new TierCost(ROOFLINE, Math.pow(10, 8 + 3 * random.nextDouble()));
            long numTokens = 1 + random.nextInt(3000);
            double best = Double.MAX_VALUE;
            for (long computed = 0; computed <= numTokens; computed++) {
                best = Math.min(
                        best, Math.max(tier.computeSeconds(0, computed), tier.loadSeconds(numTokens - computed)));
            }
            String where = "seed " + seed + " round " + i + ": " + tier + " N = " + numTokens;
            assertEquals(best, tier.bothSeconds(numTokens), where);
            assertTrue(tier.bothSeconds(numTokens) <= tier.loadSeconds(numTokens), where);
            assertTrue(tier.bothSeconds(numTokens) <= tier.computeSeconds(0, numTokens), where);
        }
    }

    @Test
    void attentionMakesLaterTokensDearer() {
        TierCost tier = new TierCost(ROOFLINE, 2e9);
        assertTrue(tier.computeSeconds(1000, 1128) > tier.computeSeconds(0, 128));
        assertEquals(
                tier.computeSeconds(0, 1128), tier.computeSeconds(0, 1000) + tier.computeSeconds(1000, 1128), 1e-12);
    }
}
