package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import io.millrace.backend.BatchInput;
import io.millrace.backend.LogitsRow;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** How a level's units are cut into tasks, and which pieces follow others. */
class AttentionPlanTest {
    @Test
    void shortUnitsGoTogetherAndFewerTowardsTheEnd() {
        AttentionPlan plan = new AttentionPlan(3, 3, 2, true);
        plan(plan, decodes(64), 64);
        assertEquals(1, plan.numLevels());
        int[] starts = starts(plan);
        assertArrayEquals(
                new int[] {0, 8, 16, 24}, IntStream.of(starts).limit(4).toArray());
        assertEquals(3 * 64, starts[starts.length - 1]);
        int last = 8;
        for (int task = 0; task + 1 < starts.length; task++) {
            int numUnits = starts[task + 1] - starts[task];
            assertEquals(Math.max(1, Math.min(last, (192 - starts[task]) / 8)), numUnits, "task " + task);
            last = numUnits;
        }
        assertEquals(1, last);
    }

    @Test
    void aSequenceAloneIsSharedOutByHeads() {
        AttentionPlan plan = new AttentionPlan(3, 3, 2, true);
        plan(plan, decodes(1), 1);
        assertArrayEquals(new int[] {0, 1, 2, 3}, starts(plan));
    }

    @Test
    void manyRowsAreTasksByThemselves() {
        AttentionPlan plan = new AttentionPlan(3, 3, 1, true);
        int length = 200;
        int[] table = IntStream.range(0, 13).toArray();
        BatchInput prompt = batch(length, new int[] {0, length}, new int[] {length}, new int[][] {table});
        plan(plan, prompt, length);
        assertArrayEquals(IntStream.rangeClosed(0, 3 * plan.numPieces(0)).toArray(), starts(plan));
    }

    @Test
    void shortTailsFollowTheirSharedPiece() {
        AttentionPlan plan = new AttentionPlan(3, 3, 2, true);
        plan(plan, families(3, 4, 8, 2), 12);
        assertEquals(3, plan.numPieces(0));
        assertEquals(0, plan.numTasks(1));
        boolean[] isSeen = new boolean[12];
        for (int i = 0; i < 3; i++) {
            int leader = plan.piece(0, i);
            assertEquals(4, plan.numTokens(leader));
            for (int f = plan.firstFollower(leader); f >= 0; f = plan.nextFollower(f)) {
                int row = plan.row(f, 0);
                assertEquals(row, plan.row(leader, plan.indexInLeader(f)));
                assertEquals(2, plan.firstTile(f));
                assertEquals(3, plan.endTile(f));
                assertFalse(isSeen[row]);
                isSeen[row] = true;
            }
        }
        assertArrayEquals(filled(12), isSeen);
    }

    @Test
    void longTailsAndThoseOfFewLeadersAreALevelOfTheirOwn() {
        AttentionPlan plan = new AttentionPlan(3, 3, 2, true);
        plan(plan, families(3, 4, 8, 17), 12);
        assertEquals(12, plan.numPieces(1));
        plan(plan, families(2, 4, 8, 2), 8);
        assertEquals(8, plan.numPieces(1));
        assertEquals(-1, plan.firstFollower(plan.piece(0, 0)));
    }

    /** A token each of sequences of which every few begin with the same blocks. */
    private static BatchInput families(int numFamilies, int numMembers, int sharedBlocks, int ownBlocks) {
        int numSequences = numFamilies * numMembers;
        int[][] tables = IntStream.range(0, numSequences)
                .mapToObj(s -> IntStream.range(0, sharedBlocks + ownBlocks)
                        .map(b -> b < sharedBlocks
                                ? s / numMembers * sharedBlocks + b
                                : 1000 + s * ownBlocks + b - sharedBlocks)
                        .toArray())
                .toArray(int[][]::new);
        int[] lengths = IntStream.range(0, numSequences)
                .map(s -> 16 * (sharedBlocks + ownBlocks))
                .toArray();
        return batch(numSequences, IntStream.rangeClosed(0, numSequences).toArray(), lengths, tables);
    }

    private static boolean[] filled(int count) {
        boolean[] all = new boolean[count];
        Arrays.fill(all, true);
        return all;
    }

    private static void plan(AttentionPlan plan, BatchInput batch, int numTokens) {
        TokenRows rows = new TokenRows();
        rows.setAll(batch);
        assertEquals(numTokens, rows.numRows());
        plan.build(batch, rows);
    }

    private static int[] starts(AttentionPlan plan) {
        return IntStream.rangeClosed(0, plan.numTasks(0))
                .map(task -> plan.firstUnit(0, task))
                .toArray();
    }

    /** A token each of sequences that share nothing. */
    private static BatchInput decodes(int numSequences) {
        int[] lengths = IntStream.range(0, numSequences).map(s -> 32).toArray();
        int[][] tables = IntStream.range(0, numSequences)
                .mapToObj(s -> new int[] {2 * s, 2 * s + 1})
                .toArray(int[][]::new);
        return batch(numSequences, IntStream.rangeClosed(0, numSequences).toArray(), lengths, tables);
    }

    private static BatchInput batch(int numTokens, int[] starts, int[] lengths, int[][] tables) {
        int[] positions = new int[numTokens];
        List<LogitsRow> rows = new ArrayList<>();
        for (int s = 0; s < lengths.length; s++) {
            for (int t = starts[s]; t < starts[s + 1]; t++) {
                positions[t] = lengths[s] - starts[s + 1] + t;
            }
            rows.add(LogitsRow.score(starts[s + 1] - 1, 0, 0));
        }
        int[] none = new int[0];
        return new BatchInput(
                numTokens,
                new int[numTokens],
                positions,
                new int[numTokens],
                lengths.length,
                starts,
                lengths,
                tables,
                rows,
                0,
                none,
                none);
    }
}
