package io.millrace.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.KvFormat;
import io.millrace.prefix.InMemoryPrefixStore;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.SamplingParams;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Times to the first token of a stored prompt, exactly, on a clock of the test's. */
class TierTimingTest {
    private static final int CHUNK = 128;
    private static final int FIRST_MEASURED_ID = 300;
    private static final double TOKEN_NANOS = 100_000;
    private static final int BUDGET = 512;
    private static final int NUM_LOADED_CHUNKS = 16;
    private static final long LOAD_NANOS = 5_000_000;

    /** One setting: shares of compute, speed of loads, length. */
    private record Cell(int budget, double share, int numTokens, double ratio, double dearth) {
        int numOthers() {
            return (int) Math.round(budget * (1 - share));
        }

        double computeNanos(int first, int end) {
            double own = (end - first) * TOKEN_NANOS + dearth * ((double) end * end - (double) first * first) / 2;
            return own + (end - first) * (1 / share - 1) * TOKEN_NANOS;
        }

        double lastStepNanos() {
            return TOKEN_NANOS + dearth * numTokens + numOthers() * TOKEN_NANOS;
        }

        /** Chosen such that loading all takes ratio times what computing all takes. */
        long loadNanos() {
            return Math.round(ratio * computeNanos(0, numTokens) / (numTokens / CHUNK));
        }

        double idealNanos() {
            double best = Double.POSITIVE_INFINITY;
            int numChunks = numTokens / CHUNK;
            for (int x = 0; x <= numChunks; x++) {
                best = Math.min(best, Math.max(computeNanos(0, x * CHUNK), (double) (numChunks - x) * loadNanos()));
            }
            return best + lastStepNanos();
        }

        double chunkNanos() {
            int middle = numTokens / 2 / CHUNK * CHUNK;
            return Math.max(loadNanos(), computeNanos(middle, middle + CHUNK));
        }
    }

    private static long timeToFirstToken(Cell cell, boolean warm, boolean stored) {
        TierHarness.Clock clock = new TierHarness.Clock();
        InMemoryPrefixStore store = new InMemoryPrefixStore(clock, 1).withTimes(0, 1000);
        int numBlocks = (cell.numTokens + 2 * cell.budget) / 16 + 64;
        TierConfig tier = new TierConfig(KvFormat.AS_COMPUTED, CHUNK, true, 1L << 40, 1_000_000);
        EngineConfig config = EngineHarness.config(64, cell.budget, true, 16).withTier(tier);
        int[] prompt = tokens(7, cell.numTokens + 1, FIRST_MEASURED_ID);
        SamplingParams one = SamplingParams.builder().maxTokens(1).build();
        try (TierHarness tiered = new TierHarness(config, numBlocks, clock, store)) {
            tiered.nanosPerToken = TOKEN_NANOS;
            tiered.nanosPerPosition = cell.dearth;
            tiered.harness.submit(new Request("store", prompt, one));
            tiered.runToEnd(100_000);
            assertEquals(cell.numTokens / CHUNK, store.numChunks());
            tiered.flood(numBlocks);
            if (!stored) {
                store.forgetAll();
                store.setRefusing(true);
            }
            store.withTimes(0, cell.loadNanos());
            if (warm) {
                tiered.harness.submit(new Request("warm", prompt, one));
                tiered.runToEnd(100_000);
                tiered.flood(numBlocks);
            }
            long begun = clock.now;
            long othersBefore = tiered.numTokensBelow;
            int numOthersSubmitted = 0;
            tiered.harness.submit(new Request("measured", prompt, one));
            for (int i = 0; !tiered.harness.ledger.get("measured").isDone(); i++) {
                // Others have always as many tokens waiting as their share of a full step.
                int missing = cell.numOthers() - numOthersSubmitted + (int) (tiered.numTokensBelow - othersBefore);
                if (missing > 0) {
                    numOthersSubmitted += missing;
                    tiered.harness.submit(
                            new Request("other" + i, tokens(1000 + i, missing, 10), one, -1, "", List.of(), false));
                }
                assertTrue(tiered.step());
            }
            return clock.now - begun;
        }
    }

    private static int[] tokens(long seed, int count, int firstId) {
        return new Random(seed).ints(count, firstId, firstId + 290).toArray();
    }

    @ParameterizedTest
    @CsvSource({"512,1", "512,0.875", "1024,0.5", "512,0.125"})
    void meetsNearTheIdealAndNeverLosesToOneResource(int budget, double share) {
        StringBuilder failures = new StringBuilder();
        int numCells = 0;
        double worst = 0;
        for (int numTokens : new int[] {1024, 2048}) {
            for (double dearth : new double[] {0, 10}) {
                double compute = timeToFirstToken(new Cell(budget, share, numTokens, 1, dearth), false, false);
                for (double ratio : new double[] {0.01, 0.05, 0.25, 0.8, 1.25, 4, 100}) {
                    for (boolean warm : new boolean[] {true, false}) {
                        Cell cell = new Cell(budget, share, numTokens, ratio, dearth);
                        double time = timeToFirstToken(cell, warm, true);
                        double ideal = cell.idealNanos();
                        double io = (double) numTokens / CHUNK * cell.loadNanos() + cell.lastStepNanos();
                        // An engine that has never loaded learns on its first prompt, which costs up to a chunk more.
                        double limit = Math.max(1.08 * ideal, ideal + (warm ? 1 : 2) * cell.chunkNanos());
                        numCells++;
                        worst = Math.max(worst, (time - ideal) / (limit - ideal));
                        if (time > limit || warm && 0.98 * time > Math.min(compute, io)) {
                            failures.append(String.format(
                                    "%n%s warm=%s: %.1f ms, ideal %.1f, limit %.1f, compute %.1f, io %.1f, chunk load %.1f",
                                    cell,
                                    warm,
                                    time / 1e6,
                                    ideal / 1e6,
                                    limit / 1e6,
                                    compute / 1e6,
                                    io / 1e6,
                                    cell.loadNanos() / 1e6));
                        }
                    }
                }
            }
        }
        System.out.printf("budget %d share %.3f: %d cells, worst %.2f of the margin%n", budget, share, numCells, worst);
        assertEquals("", failures.toString());
    }

    /**
     * A stored prompt that loads in a step and a half, and more tokens of others than fit into any number of steps until then.
     *
     * @param numLeft tokens behind the stored part
     * @param priority of the others
     * @return until the first token, and of the others' tokens how many were computed meanwhile
     */
    private static long[] amongOthers(int numLeft, int priority, boolean loadingLast) {
        TierHarness.Clock clock = new TierHarness.Clock();
        InMemoryPrefixStore store = new InMemoryPrefixStore(clock, 1).withTimes(0, 1000);
        TierConfig tier = new TierConfig(KvFormat.AS_COMPUTED, CHUNK, true, 1L << 40, 1_000_000);
        EngineConfig config =
                EngineHarness.config(64, BUDGET, true, 16).withTier(loadingLast ? tier : tier.inOrderOfService());
        int numBlocks = 1024;
        int[] prompt = tokens(7, NUM_LOADED_CHUNKS * CHUNK + numLeft, FIRST_MEASURED_ID);
        SamplingParams one = SamplingParams.builder().maxTokens(1).build();
        try (TierHarness tiered = new TierHarness(config, numBlocks, clock, store)) {
            tiered.nanosPerToken = TOKEN_NANOS;
            for (String id : new String[] {"store", "warm"}) {
                tiered.harness.submit(new Request(id, prompt, one));
                tiered.runToEnd(100_000);
                tiered.flood(numBlocks);
                store.withTimes(0, LOAD_NANOS);
            }
            long begun = clock.now;
            long othersBefore = tiered.numTokensBelow;
            tiered.harness.submit(new Request("measured", prompt, one));
            for (int i = 0; i < 16; i++) {
                tiered.harness.submit(
                        new Request("other" + i, tokens(1000 + i, 200, 10), one, priority, "", List.of(), false));
            }
            while (!tiered.harness.ledger.get("measured").isDone()) {
                assertTrue(tiered.step());
            }
            long[] result = {clock.now - begun, tiered.numTokensBelow - othersBefore};
            tiered.runToEnd(100_000);
            return result;
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 40})
    void aPromptThatOthersWentBeforeWaitsForNoStepOfThoseBehindIt(int numLeft) {
        long[] adaptive = amongOthers(numLeft, 0, true);
        double shortest = Math.max(numLeft, BUDGET / 32) * TOKEN_NANOS;
        assertTrue(adaptive[0] >= NUM_LOADED_CHUNKS * LOAD_NANOS, adaptive[0] + " ns");
        assertTrue(
                adaptive[0] <= 1.05 * NUM_LOADED_CHUNKS * LOAD_NANOS + shortest,
                adaptive[0] / 1e6 + " ms, loads take " + NUM_LOADED_CHUNKS * LOAD_NANOS / 1e6);
        long[] inOrder = amongOthers(numLeft, 0, false);
        assertTrue(inOrder[1] >= BUDGET / 2, "steps in order of service are full: " + inOrder[1] + " tokens of others");
    }

    @Test
    void thoseServedBeforeAPromptThatWasLoadedGoFirst() {
        assertEquals(16 * 200, amongOthers(40, -1, true)[1]);
    }

    @Test
    void aPromptOfOneChunkMoreThanNothingIsServed() {
        Cell cell = new Cell(512, 1, CHUNK, 1, 0);
        assertTrue(timeToFirstToken(cell, true, true) <= cell.idealNanos() + cell.chunkNanos());
    }
}
