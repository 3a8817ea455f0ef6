package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.millrace.kernels.KernelChoice;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Trials of row counts contain results that another order of summation would change, whatever they are rounded to. */
class RowProbeTest {
    private static final int DEPTH = 576;
    private static final int WIDTH = 48;

    @ParameterizedTest
    @CsvSource({"STORE, FLOAT32", "STORE, BFLOAT16", "GATE, FLOAT32", "GATE, BFLOAT16"})
    void someResultsAreRoundingErrorsAlone(ProductEnd end, NumberFormat format) {
        assumeTrue(format == NumberFormat.FLOAT32 || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        OneDnn.useOneThreadPerCall();
        int numErrors = 0;
        int numZeros = 0;
        try (MatmulShape shape = new MatmulShape(DEPTH, WIDTH, format, end, WIDTH, true);
                RowProbe.Trial trial =
                        new RowProbe.Trial(shape, KernelChoice.best().kernels())) {
            float[][] results = trial.results(RowCounts.candidateOf(RowCounts.ANCHOR), 0);
            for (int r = 0; r < results.length; r++) {
                for (int c = 0; c < WIDTH; c++) {
                    if (RowProbe.Trial.isRepeated(r) && RowProbe.Trial.isOpposed(c)) {
                        assertEquals(0, results[r][c], 1e-4f, "row " + r + ", column " + c);
                        numErrors++;
                        numZeros += results[r][c] == 0 ? 1 : 0;
                    }
                }
            }
        }
        assertEquals(RowCounts.ANCHOR * WIDTH / 4, numErrors);
        assertTrue(numZeros < numErrors / 2, numZeros + " of " + numErrors + " results are 0");
    }
}
