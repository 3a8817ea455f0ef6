package io.millrace.bench.report;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Path;

/**
 * A report as JSON: {@code scenario}, {@code config} (settings and machine), {@code results} (per table a list of rows) and
 * {@code checks} (name, value, op, limit, ok; value and ok are null where nothing was measured).
 */
public final class ReportJson {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ReportJson() {}

    public static ObjectNode toJson(Report report) {
        ObjectNode root = JSON.createObjectNode();
        root.put("scenario", report.scenario());
        root.set("config", JSON.valueToTree(report.config()));
        ObjectNode results = root.putObject("results");
        for (Table table : report.tables()) {
            results.set(table.name(), JSON.valueToTree(table.rows()));
        }
        ArrayNode checks = root.putArray("checks");
        for (Check check : report.checks()) {
            ObjectNode node = checks.addObject();
            node.put("name", check.name());
            node.put("value", check.value());
            node.put("op", check.op().sign());
            node.put("limit", check.limit());
            node.put("ok", check.ok());
        }
        return root;
    }

    public static void write(Report report, Path file) throws IOException {
        JSON.writerWithDefaultPrettyPrinter().writeValue(file.toFile(), toJson(report));
    }
}
