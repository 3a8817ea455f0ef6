package io.millrace.bench.report;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** A report as one HTML page that needs nothing else: tables, checks, and plots by uPlot (MIT, its licence beside it). */
public final class ReportHtml {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Report report;
    private final StringBuilder page = new StringBuilder();

    private ReportHtml(Report report) {
        this.report = report;
    }

    public static void write(Report report, Path file) throws IOException {
        Files.writeString(file, toHtml(report));
    }

    static String toHtml(Report report) throws IOException {
        return new ReportHtml(report).build();
    }

    private String build() throws IOException {
        page.append("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>millrace bench ")
                .append(escape(report.scenario()))
                .append("</title>\n<style>")
                .append(resource("uPlot.min.css"))
                .append(resource("page.css"))
                .append("</style>\n</head><body>\n<h1>millrace bench ")
                .append(escape(report.scenario()))
                .append("</h1>\n<dl>");
        for (Map.Entry<String, Object> entry : report.config().entrySet()) {
            page.append("<dt>")
                    .append(escape(entry.getKey()))
                    .append("</dt><dd>")
                    .append(escape(String.valueOf(entry.getValue())))
                    .append("</dd>");
        }
        page.append("</dl>\n");
        appendChecks();
        for (int i = 0; i < report.plots().size(); i++) {
            page.append("<div class=\"plot\" id=\"plot").append(i).append("\"></div>\n");
        }
        report.tables().forEach(this::appendTable);
        if (!report.plots().isEmpty()) {
            page.append("<!-- uPlot's licence:\n")
                    .append(resource("uPlot.LICENSE"))
                    .append("-->\n<script>")
                    .append(resource("uPlot.iife.min.js"))
                    .append("</script>\n<script>const plots = ")
                    .append(JSON.writeValueAsString(plots()).replace("</", "<\\/"))
                    .append(";\n")
                    .append(resource("page.js"))
                    .append("</script>\n");
        }
        return page.append("</body></html>\n").toString();
    }

    private void appendChecks() {
        if (report.checks().isEmpty()) {
            return;
        }
        page.append(
                "<table><caption>checks</caption><tr><th>check</th><th>value</th><th></th><th>limit</th><th></th></tr>\n");
        for (Check check : report.checks()) {
            String verdict = check.ok() == null ? "unmeasured" : check.ok() ? "ok" : "missed";
            page.append("<tr class=\"").append(verdict).append("\">");
            for (Object cell :
                    new Object[] {check.name(), check.value(), check.op().sign(), check.limit(), verdict}) {
                page.append("<td>").append(escape(ReportText.format(cell))).append("</td>");
            }
            page.append("</tr>\n");
        }
        page.append("</table>\n");
    }

    private void appendTable(Table table) {
        page.append("<table><caption>").append(escape(table.name())).append("</caption><tr>");
        table.columns()
                .forEach(column -> page.append("<th>").append(escape(column)).append("</th>"));
        page.append("</tr>\n");
        for (Map<String, Object> row : table.rows()) {
            page.append("<tr>");
            for (String column : table.columns()) {
                page.append("<td>")
                        .append(escape(ReportText.format(row.get(column))))
                        .append("</td>");
            }
            page.append("</tr>\n");
        }
        page.append("</table>\n");
    }

    private ArrayNode plots() {
        ArrayNode plots = JSON.createArrayNode();
        for (Plot plot : report.plots()) {
            ObjectNode node = plots.addObject();
            node.put("title", plot.title());
            node.put("x", plot.x());
            ArrayNode names = node.putArray("series");
            ArrayNode data = node.putArray("data");
            addNumbers(data.addArray(), plot.table().numbers(plot.x()));
            for (String column : plot.series()) {
                names.add(column);
                addNumbers(data.addArray(), plot.table().numbers(column));
            }
        }
        return plots;
    }

    private static void addNumbers(ArrayNode array, double[] numbers) {
        for (double number : numbers) {
            if (Double.isNaN(number)) {
                array.addNull();
            } else {
                array.add(number);
            }
        }
    }

    private static String escape(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }

    private static String resource(String name) throws IOException {
        try (InputStream in = ReportHtml.class.getResourceAsStream(name)) {
            if (in == null) {
                throw new IOException("resource " + name + " is missing from the benchmarks jar; build it again");
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
