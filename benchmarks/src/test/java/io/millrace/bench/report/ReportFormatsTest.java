package io.millrace.bench.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.bench.report.Check.Op;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ReportFormatsTest {
    @TempDir
    Path directory;

    private static Report report() {
        Report report = new Report("decode").config("model", "smollm2-135m").config("batch_sizes", List.of(1, 64));
        Table table = report.table("decode", "batch", "step_ms", "way");
        table.add(1, 2.5, "a <b>").add(64, Double.NaN, null);
        report.check("reached", 1.2, Op.AT_MOST, 1.35);
        report.check("missed", 1.6, Op.AT_MOST, 1.35);
        report.check("unmeasured", Double.NaN, Op.AT_LEAST, 0.97);
        report.plot(Plot.of("steps </script>", table, "batch", "step_ms"));
        return report;
    }

    @Test
    void jsonHasTheFourKeysAndNullsForWhatWasNotMeasured() throws IOException {
        Path file = directory.resolve("report.json");
        ReportJson.write(report(), file);
        JsonNode root = new ObjectMapper().readTree(file.toFile());
        assertEquals(List.of("scenario", "config", "results", "checks"), names(root));
        assertEquals("decode", root.get("scenario").asText());
        assertEquals("[1,64]", root.get("config").get("batch_sizes").toString());
        assertEquals(
                "[{\"batch\":1,\"step_ms\":2.5,\"way\":\"a <b>\"},{\"batch\":64,\"step_ms\":null,\"way\":null}]",
                root.get("results").get("decode").toString());
        for (JsonNode check : root.get("checks")) {
            assertEquals(List.of("name", "value", "op", "limit", "ok"), names(check));
        }
        assertEquals(
                "[{\"name\":\"reached\",\"value\":1.2,\"op\":\"<=\",\"limit\":1.35,\"ok\":true},"
                        + "{\"name\":\"missed\",\"value\":1.6,\"op\":\"<=\",\"limit\":1.35,\"ok\":false},"
                        + "{\"name\":\"unmeasured\",\"value\":null,\"op\":\">=\",\"limit\":0.97,\"ok\":null}]",
                root.get("checks").toString());
    }

    private static List<String> names(JsonNode node) {
        List<String> names = new ArrayList<>();
        node.fieldNames().forEachRemaining(names::add);
        return names;
    }

    @Test
    void textAlignsColumnsAndTellsVerdicts() {
        String text = ReportText.toText(report());
        assertTrue(text.contains("  batch  step_ms    way\n  1        2.500  a <b>\n  64           -      -\n"), text);
        assertTrue(text.contains("1.200  <=  1.350            ok\n"), text);
        assertTrue(text.contains("1.600  <=  1.350        MISSED\n"), text);
        assertTrue(text.contains("-  >=  0.970  not measured\n"), text);
    }

    @Test
    void htmlNeedsNothingFromOutside() throws IOException {
        String html = ReportHtml.toHtml(report());
        assertTrue(html.contains("a &lt;b&gt;"));
        assertTrue(html.contains("uPlot=function"));
        assertTrue(html.contains("The MIT License"));
        assertTrue(html.contains("\"data\":[[1.0,64.0],[2.5,null]]"));
        assertTrue(html.contains("steps <\\/script>"));
        assertFalse(html.contains("src=\"http"));
        assertFalse(html.contains("<link"));
    }

    @Test
    void rowsHaveACellPerColumn() {
        assertThrows(IllegalArgumentException.class, () -> new Table("t", "a", "b").add(1));
    }
}
