package io.millrace.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class PlanTest {
    private static final Path GOLDEN = Path.of("src/test/resources/plan/llama-3-8b-h100.json");

    /** A key renamed or dropped breaks readers: raise PlanJson.FORMAT_VERSION, then run with -Dmillrace.golden.write=true. */
    @Test
    void jsonIsTheGoldenOne() throws IOException {
        String json = PlanJson.toText(Plan.of(Llama3OnH100.request()));
        if (Boolean.getBoolean("millrace.golden.write")) {
            Files.createDirectories(GOLDEN.getParent());
            Files.writeString(GOLDEN, json);
        }
        // As trees: JDK 19 and newer write some numbers with fewer digits.
        ObjectMapper mapper = new ObjectMapper();
        assertEquals(mapper.readTree(GOLDEN.toFile()), mapper.readTree(json));
    }

    @Test
    void batchSizesGoUpToWhatFits() {
        Plan plan = Plan.of(Llama3OnH100.request());
        assertEquals(
                List.of(1L, 8L, 64L, 186L),
                plan.decode().stream().map(Plan.DecodePoint::batchSize).toList());
        assertEquals(186, plan.maxSequences());
        assertEquals(46, plan.reservedSequences());
    }

    @Test
    void batchBeyondWhatFitsIsMarked() {
        Plan plan = Plan.of(Llama3OnH100.request(2048, List.of(187, 186)));
        assertTrue(plan.decode().get(0).fits());
        assertFalse(plan.decode().get(1).fits());
        assertTrue(PlanTable.toText(plan).contains("(1) more than B_max: its KV does not fit"));
    }

    @Test
    void largestBatchUnderALimitIsCutToWhatFits() {
        Plan.Tpot tpot = Plan.of(Llama3OnH100.request()).tpot();
        assertEquals(564, tpot.batchSizeByTime());
        assertEquals(186, tpot.batchSize());
    }

    @Test
    void sharingOneSampleSavesNothing() {
        Plan.Sharing of8 = Plan.of(Llama3OnH100.request()).sharing();
        assertEquals(2048, of8.prefillTokens());
        assertEquals(16_384, of8.prefillTokensUnshared());
        assertEquals((2048 + 8 * 256) * 131_072.0, of8.kvBytes());
        assertEquals(8 * (2048 + 256) * 131_072.0, of8.kvBytesUnshared());
        assertEquals(23_841 / (128 + 8 * 16), of8.numGroups());
        assertEquals(23_841 / (8 * 144), of8.numGroupsUnshared());
        assertTrue(of8.stepSeconds() < of8.stepSecondsUnshared());
    }

    @Test
    void tableShowsTheFiguresWithin100Columns() {
        String table = PlanTable.toText(Plan.of(Llama3OnH100.request()));
        for (String line : table.split("\n")) {
            assertTrue(line.length() <= PlanTable.WIDTH, line);
        }
        for (String figure : List.of(
                "16.06 GB",
                "131,072 B",
                "381,469",
                "23,841",
                "4.87 ms",
                "5.44 ms",
                "9.92 ms",
                "19.70 ms",
                "205",
                "1,472",
                "6,450",
                "9,442",
                "345 rows",
                "325 rows",
                "34.37 ms",
                "268.44 MB",
                "5.37 ms",
                "2.11")) {
            assertTrue(table.contains(figure), figure);
        }
    }

    @Test
    void tinyAndHugeModelsStayWithin100Columns() {
        for (String name : NamedShapes.names()) {
            for (String device : DeviceSpec.names()) {
                PlanRequest base = Llama3OnH100.request();
                PlanRequest request = new PlanRequest(
                        NamedShapes.find(name).orElseThrow(),
                        DeviceSpec.find(device).orElseThrow().times(16),
                        Precision.FLOAT32,
                        base.kvCache(),
                        64,
                        16,
                        4096,
                        List.of(1, 999_999),
                        64,
                        1,
                        0,
                        64,
                        1e-6,
                        1e6,
                        base.speculation(),
                        List.of(64),
                        List.of("a remark that is rather long and has to be wrapped somewhere before it ends"));
                for (String line : PlanTable.toText(Plan.of(request)).split("\n")) {
                    assertTrue(line.length() <= 100, line);
                }
            }
        }
    }

    @Test
    void impossibleRequestsNameOptionValueLimitAndRemedy() {
        InvalidPlanException context =
                assertThrows(InvalidPlanException.class, () -> Llama3OnH100.request(9000, List.of()));
        assertEquals(
                "option --context = 9000: must lie in [1, 8192]; --max-model-len or the model allows at most 8192; choose"
                        + " within",
                context.getMessage());
        InvalidPlanException output =
                assertThrows(InvalidPlanException.class, () -> Llama3OnH100.request(8000, List.of()));
        assertTrue(output.getMessage().startsWith("option --output = 256: with --prompt = 8000"), output::getMessage);
        InvalidPlanException weights = assertThrows(
                InvalidPlanException.class, () -> PlanRequest.KvMemory.remainder(0.9, 141.1e9, Llama3OnH100.DEVICE));
        assertTrue(
                weights.getMessage().contains("weights of 141.10 GB leave nothing for KV of 72.00 GB"),
                weights::getMessage);
        assertEquals(
                80_000_000_000L * 9 / 10 - 16_000_000_000L,
                PlanRequest.KvMemory.remainder(0.9, 16e9, Llama3OnH100.DEVICE).bytes());
    }
}
