package io.millrace.bench.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class CalibrationTest {
    private final List<PaperCell> cells = PaperCell.readAll();
    private final Calibration calibration = new Calibration(cells);

    @Test
    void readsEveryPublishedCell() {
        assertEquals(60, cells.stream().filter(cell -> cell.table() == 3).count());
        assertEquals(64, cells.stream().filter(cell -> cell.table() == 4).count());
        assertEquals(24, cells.stream().filter(cell -> cell.table() == 5).count());
        assertEquals(12, cells.stream().filter(cell -> cell.table() == 6).count());
        PaperCell first = cells.get(0);
        assertEquals(
                new PaperCell(3, ServedModel.MULTI_HEAD_13B, Hardware.TWO_A100, 7, 12.5, 16384, 16, 1.87, 2.18), first);
        // 16,384 tokens of 800 KiB over 7 gigabits a second.
        assertEquals(16384 * 819_200.0 * 8 / 7e9, first.ioSeconds(), 1e-9);
        assertEquals(first.ioSeconds() * 2.18 / 1.87, first.computeSeconds(), 1e-9);
    }

    @Test
    void reproducesTheRatioOfBothResourcesInEveryCell() {
        double[] errors = new double[cells.size()];
        for (int i = 0; i < errors.length; i++) {
            PaperCell cell = cells.get(i);
            ComputeCosts costs =
                    calibration.costs(cell.model(), cell.hardware(), cell.numTokens(), cell.computeShare());
            double fitted = costs.sharedPromptSeconds(0, cell.numTokens(), cell.computeShare());
            errors[i] = Math.abs(fitted / cell.computeSeconds() - 1);
            assertTrue(errors[i] < 0.30, cell + " is off by " + errors[i]);
        }
        java.util.Arrays.sort(errors);
        assertTrue(errors[errors.length / 2] < 0.03, "half of the cells are off by more than " + errors[80]);
        assertTrue(errors[errors.length * 9 / 10] < 0.08, "a tenth is off by more than " + errors[144]);
    }

    @Test
    void anExactLawIsFoundAgain() {
        double token = 2e-4;
        double growth = 5e-5;
        List<PaperCell> exact = cells.stream()
                .map(cell -> {
                    double r = growth * cell.model().positionShare() / ServedModel.MULTI_HEAD_13B.positionShare();
                    int n = cell.numTokens();
                    double seconds = token * n * (1 + r * n / 2) / cell.computeShare();
                    return new PaperCell(
                            cell.table(),
                            cell.model(),
                            cell.hardware(),
                            cell.gbps(),
                            cell.computePercent(),
                            n,
                            cell.bits(),
                            1,
                            seconds / cell.ioSeconds());
                })
                .toList();
        Calibration fitted = new Calibration(exact);
        for (Hardware hardware : Hardware.values()) {
            ComputeCosts costs = fitted.costs(ServedModel.MULTI_HEAD_13B, hardware, 8192, 0.5);
            assertEquals(token, costs.tokenSeconds(), token * 1e-5);
            assertEquals(token * growth, costs.positionSeconds(), token * growth * 1e-3);
            assertEquals(token * (1 + growth * 8191 / 2), costs.otherTokenSeconds(), token * 1e-5);
        }
    }
}
