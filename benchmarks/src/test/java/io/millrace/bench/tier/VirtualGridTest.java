package io.millrace.bench.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** There is no stopwatch in this: the engine's scheduler and loader, and times that follow from the cells alone. */
class VirtualGridTest {
    private static VirtualGrid grid;

    @BeforeAll
    static void storePrompts() {
        grid = new VirtualGrid();
    }

    private static void assertReached(VirtualResult result) {
        assertTrue(
                result.shareOfLimit() <= 1,
                () -> result + " takes " + result.overIdeal() + " times the ideal, more than may pass");
        assertTrue(
                result.overBetter() >= 0.98,
                () -> result + " is slower than one resource alone: " + result.overBetter());
    }

    @Test
    void everyPublishedCellIsNearTheIdealMeetingAndNeverBehindASingleResource() {
        PaperCell.readAll().forEach(cell -> assertReached(grid.result(VirtualGrid.cell(cell))));
    }

    @ParameterizedTest
    @ValueSource(ints = {VirtualGrid.MAX_NUM_BATCHED_TOKENS, VirtualGrid.LARGE_NUM_BATCHED_TOKENS})
    void soAreOthersOfTheWholeGrid(int maxNumBatchedTokens) {
        List<VirtualCell> cells = new ArrayList<>(VirtualGrid.allCells(maxNumBatchedTokens));
        assertEquals(3 * 4 * 5 * 4 * 4 * 4, cells.size());
        Collections.shuffle(cells, new Random(5));
        cells.subList(0, 200).forEach(cell -> assertReached(grid.result(cell)));
    }

    /**
     * Cells that were behind a single resource once, by step ends that missed the last load: an engine that has seen two
     * steps, others' tokens dearer than the prompt's own, a few long steps of others against many short loads.
     */
    static List<VirtualCell> cellsThatWereBehind() {
        return List.of(
                new VirtualCell(ServedModel.GROUPED_8B, Hardware.TWO_A100, 56, 87.5, 4096, 4, 1024),
                new VirtualCell(ServedModel.GROUPED_8B, Hardware.TWO_A100, 100, 87.5, 12288, 4, 1024),
                new VirtualCell(ServedModel.GROUPED_70B, Hardware.TWO_A100, 32, 87.5, 16384, 3, 1024),
                new VirtualCell(ServedModel.GROUPED_70B, Hardware.A100, 25, 87.5, 4096, 16, 1024),
                new VirtualCell(ServedModel.GROUPED_70B, Hardware.H100, 25, 87.5, 8192, 3, 1024),
                new VirtualCell(ServedModel.MULTI_HEAD_7B, Hardware.H100, 100, 12.5, 16384, 8, 512),
                new VirtualCell(ServedModel.MULTI_HEAD_13B, Hardware.H100, 32, 12.5, 8192, 4, 512));
    }

    @ParameterizedTest
    @MethodSource("cellsThatWereBehind")
    void aCellThatWasBehindIsNoMore(VirtualCell cell) {
        assertReached(grid.result(cell));
    }

    /** Others come in every step, and the store has to be asked about each: that must not cost them their turn. */
    @ParameterizedTest
    @ValueSource(doubles = {12.5, 50})
    void othersKeepTheirShareOfWhatIsComputed(double percent) {
        for (ServedModel model : ServedModel.values()) {
            VirtualCell cell = new VirtualCell(model, Hardware.A100, 100, percent, 16384, 16, 512);
            double share = grid.result(cell).shareOverGiven();
            assertTrue(share <= 1.01, () -> cell + ": of what is computed the prompt has " + share + " of its share");
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void soIsALinkAndAShareThatAreRedrawnAllTheTime(long seed) {
        assertReached(grid.fluctuation(Hardware.TWO_A100, seed));
    }

    @Test
    void withoutAStoreTheEngineTakesWhatComputingCosts() {
        VirtualCell cell = new VirtualCell(ServedModel.MULTI_HEAD_13B, Hardware.A100, 7, 50, 4096, 16, 512);
        ComputeCosts costs = grid.costs(cell);
        double seconds = VirtualRun.computeAlone(cell, costs).seconds();
        // The last token has a step of its own, with as many tokens of others as every step.
        double expected = costs.sharedPromptSeconds(0, 4096, 0.5) + cell.lastStepSeconds(costs);
        assertEquals(expected, seconds, 1e-6);
    }

    @Test
    void shortPromptsBeforeWhatIsLoadedEndAllSooner() {
        VirtualRun.MixedOutcome arrival = grid.mixed(false);
        VirtualRun.MixedOutcome adaptive = grid.mixed(true);
        assertTrue(arrival.allSeconds() >= 1.2 * adaptive.allSeconds(), arrival + " against " + adaptive);
        assertTrue(adaptive.storedSeconds() <= 1.5 * arrival.storedSeconds(), arrival + " against " + adaptive);
    }
}
