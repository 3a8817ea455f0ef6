package io.millrace.speculation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class DraftLengthsTest {
    private static final int MAX_DRAFT_TOKENS = 6;

    private static final Sequence ONE = sequences(1).get(0);

    private final DraftLengths lengths = new DraftLengths(MAX_DRAFT_TOKENS);
    private final int[] chosen = new int[64];

    private static List<Sequence> sequences(int count) {
        List<Sequence> sequences = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            SequenceGroup group = new SequenceGroup(new SequenceGroup.Settings(
                    "r" + i, new int[] {1, 2}, SamplingParams.defaults(), 0, i, "", false, new int[0]));
            sequences.add(group.addSequence(0, new int[] {3}));
        }
        return sequences;
    }

    /** Steps that cost plainNanos and perToken for every verified token; proposals are accepted as told. */
    private long run(List<Sequence> sequences, int numSteps, long plainNanos, long perToken, int numAccepted) {
        long numProposed = 0;
        for (int step = 0; step < numSteps; step++) {
            lengths.choose(sequences, chosen);
            int proposed = Arrays.stream(chosen, 0, sequences.size()).sum();
            lengths.observeStep(sequences.size(), proposed, 0, plainNanos + proposed * perToken);
            for (int i = 0; i < sequences.size(); i++) {
                if (chosen[i] > 0) {
                    lengths.observeVerified(sequences.get(i), chosen[i], Math.min(numAccepted, chosen[i]));
                }
            }
            numProposed += proposed;
        }
        return numProposed;
    }

    @Test
    void looksAtPlainStepsFirst() {
        List<Sequence> one = sequences(1);
        assertEquals(0, run(one, 3, 1000, 10, 6));
        assertEquals(MAX_DRAFT_TOKENS, run(one, 1, 1000, 10, 6));
    }

    @Test
    void proposesMuchWhereVerifyingIsCheapAndMuchIsAccepted() {
        long numProposed = run(sequences(1), 200, 1000, 10, 6);
        assertTrue(numProposed > 190 * MAX_DRAFT_TOKENS, "proposed " + numProposed);
        assertEquals(0, lengths.numStepsOff());
    }

    @Test
    void proposesLittleWhereLittleIsAccepted() {
        run(sequences(1), 200, 1000, 100, 1);
        assertTrue(chosen[0] >= 1 && chosen[0] <= 3, "chosen " + chosen[0]);
        run(sequences(1), 100, 1000, 10, 6);
    }

    @Test
    void isOffWhereVerifyingCostsAsMuchAsDrawingAndLooksAgain() {
        List<Sequence> many = sequences(64);
        lengths.observeStep(0, 0, 1000, 1_000_000); // a prompt's token costs 1000
        long numProposed = run(many, 2000, 64_000, 1000, 0);
        assertTrue(lengths.isOff());
        assertTrue(lengths.numStepsOff() > 1900, "off " + lengths.numStepsOff());
        assertTrue(numProposed > 0 && numProposed < 150, "tried " + numProposed);
        // The same batch with a device that verifies for nothing, and a draft that is right.
        run(many, 3000, 64_000, 0, 6);
        assertFalse(lengths.isOff());
    }

    @Test
    void aDearDraftIsNotWorthIt() {
        List<Sequence> one = sequences(1);
        run(one, 3, 1000, 10, 6);
        for (int i = 0; i < 50; i++) {
            lengths.costs().observeDraftStep(1, 1200);
        }
        assertEquals(0, run(one, 50, 1000, 10, 6));
        assertTrue(lengths.isOff());
    }

    @Test
    void sequencesAreJudgedOneByOne() {
        List<Sequence> two = sequences(2);
        lengths.observeStep(0, 0, 1000, 200_000);
        run(two, 3, 1000, 200, 0);
        for (int i = 0; i < 100; i++) {
            lengths.observeVerified(two.get(0), 4, 4);
            lengths.observeVerified(two.get(1), 4, 0);
        }
        lengths.choose(two, chosen);
        assertTrue(chosen[0] >= 3, "chosen " + chosen[0]);
        assertEquals(0, chosen[1]);
    }

    /** Steps for guesses that are looked up: each sequence asked for finds as many, of which as many are accepted. */
    private int runLookups(
            int numSequences, int numSteps, long perToken, long nanosPerLookup, int numFound, int numAccepted) {
        int numLookups = 0;
        for (int step = 0; step < numSteps; step++) {
            lengths.chooseChance(numSequences, chosen);
            int numAsked = (int)
                    Arrays.stream(chosen, 0, numSequences).filter(n -> n > 0).count();
            if (numAsked > 0) {
                lengths.observeLookups(numAsked, numAsked * nanosPerLookup);
            }
            int proposed = numAsked * numFound;
            lengths.observeStep(numSequences, proposed, 0, 1_000_000 + proposed * perToken);
            for (int i = 0; i < numAsked; i++) {
                lengths.observeVerified(ONE, numFound, numAccepted);
            }
            numLookups += numAsked;
        }
        return numLookups;
    }

    @Test
    void asksForTheChanceThatPaysForVerifying() {
        assertEquals(1, lengths.chooseChance(1, chosen), "before plain steps are known");
        assertEquals(0, chosen[0]);
        runLookups(1, 3, 200_000, 1000, 2, 2);
        for (int i = 0; i < 3; i++) {
            assertEquals(0, lengths.chooseChance(1, chosen), "before the cost of verifying is known");
            assertEquals(2, chosen[0]);
            lengths.observeStep(1, 2, 0, 1_400_000);
        }
        assertEquals(0.4, lengths.chooseChance(1, chosen), 1e-9);
        assertEquals(MAX_DRAFT_TOKENS, chosen[0]);
        assertFalse(lengths.isOff());
        int numPlain = 0;
        for (int i = 0; i < 650; i++) {
            lengths.chooseChance(1, chosen);
            numPlain += chosen[0] == 0 ? 1 : 0;
        }
        assertEquals(10, numPlain, "looks at plain steps in between");
    }

    @Test
    void asksForThreeTenthsHoweverCheapVerifyingIs() {
        runLookups(1, 6, 10, 1000, 2, 2);
        assertEquals(0.3, lengths.chooseChance(1, chosen), 1e-9);
        assertEquals(MAX_DRAFT_TOKENS, chosen[0]);
    }

    @Test
    void restsWhereLookupsTakeLongerThanTheySaveAndTriesAgain() {
        int numSequences = 40;
        runLookups(numSequences, 6, 5000, 500, 2, 0); // the verifying of a token for all costs 0.2
        assertFalse(lengths.isOff());
        int numLookups = runLookups(numSequences, 4, 5000, 500, 0, 0); // a round costs 0.02
        assertEquals(4 * numSequences, numLookups, "a period");
        assertEquals(0, runLookups(numSequences, 63, 5000, 500, 0, 0));
        assertTrue(lengths.isOff());
        numLookups = runLookups(numSequences, 1000, 5000, 500, 0, 0);
        assertTrue(numLookups >= 4 * 4 * numSequences && numLookups <= 6 * 4 * numSequences, "tried " + numLookups);
        runLookups(numSequences, 300, 5000, 500, 3, 3);
        numLookups = runLookups(numSequences, 640, 5000, 500, 3, 3);
        assertTrue(numLookups > 600 * numSequences, "looked up " + numLookups);
    }

    @Test
    void lookupsThatCostNextToNothingGoOnThroughTextsThatOfferNothing() {
        runLookups(1, 6, 10_000, 3000, 2, 2);
        int numLookups = runLookups(1, 2000, 10_000, 3000, 0, 0); // 0.3 % of a step
        assertEquals(2000, numLookups);
    }

    @Test
    void aLookupThatLostItsCoreIsNoLoss() {
        runLookups(1, 6, 10_000, 3000, 2, 2);
        runLookups(1, 200, 10_000, 3000, 0, 0);
        lengths.chooseChance(1, chosen);
        lengths.observeLookups(1, 50_000_000); // as long as 50 steps
        lengths.observeStep(1, 0, 0, 1_000_000);
        assertEquals(300, runLookups(1, 300, 10_000, 3000, 0, 0));
    }

    @Test
    void guessesThatFailAreALossToo() {
        runLookups(1, 6, 100_000, 1000, 2, 2);
        int numLookups = runLookups(1, 400, 100_000, 1000, 2, 0);
        assertTrue(numLookups < 280, "looked up " + numLookups); // 128, then rests of 64
    }

    @Test
    void batchSizesTryInTheirOwnTime() {
        runLookups(64, 6, 15_000, 500, 2, 0); // verifying costs as much as drawing
        runLookups(1, 6, 10_000, 1000, 2, 2);
        int numTried = 0;
        for (int step = 0; step < 600; step++) {
            numTried += runLookups(64, 1, 15_000, 500, 2, 0);
            runLookups(1, 1, 10_000, 1000, 2, 2);
        }
        assertEquals(3 * 4, numTried, "after 64, 128 and 256 steps, however many a small batch took in between");
    }

    @Test
    void asksForNothingWhereOnlySurerGuessesThanEightTenthsWouldPay() {
        for (int i = 0; i < 3; i++) {
            lengths.observeStep(1, 0, 0, 1000);
        }
        for (int i = 0; i < 10; i++) {
            lengths.observeStep(1, 2, 0, 1000 + 2 * 450); // asks for 0.9
        }
        lengths.chooseChance(1, chosen);
        assertEquals(0, chosen[0]);
        assertTrue(lengths.isOff());
    }

    @Test
    void asksForNothingWhereVerifyingCostsAsMuchAsDrawing() {
        for (int i = 0; i < 3; i++) {
            lengths.observeStep(64, 0, 0, 64_000);
        }
        int numTried = 0;
        for (int step = 0; step < 600; step++) {
            lengths.chooseChance(64, chosen);
            int proposed = Arrays.stream(chosen, 0, 64).sum();
            numTried += proposed;
            lengths.observeStep(64, proposed, 0, 64_000 + proposed * 800);
        }
        assertTrue(lengths.isOff());
        int firstTries = 3 * 8; // two tokens of every 16th sequence, until the cost is known
        assertTrue(numTried > firstTries && numTried <= 2 * firstTries, "tried " + numTried);
    }

    @Test
    void stepsThatTookTooLongAreForgotten() {
        StepCosts costs = lengths.costs();
        for (int i = 0; i < 20; i++) {
            costs.observeStep(1, 0, 0, i < 5 ? 50_000 : 1000);
        }
        for (int i = 0; i < 8; i++) {
            costs.observeStep(1, 2, 0, i < 3 ? 40_000 : 1400);
        }
        assertEquals(0.2, costs.verifyCost(1), 1e-9);
    }

    @Test
    void batchClassesAreNarrow() {
        int before = 0;
        for (int count = 1; count <= 4096; count++) {
            int batchClass = StepCosts.batchClass(count);
            assertTrue(batchClass == before || batchClass == before + 1, "class of " + count);
            before = batchClass;
        }
        assertTrue(before < 64);
        assertEquals(StepCosts.batchClass(49), StepCosts.batchClass(64));
        assertFalse(StepCosts.batchClass(48) == StepCosts.batchClass(49));
    }
}
