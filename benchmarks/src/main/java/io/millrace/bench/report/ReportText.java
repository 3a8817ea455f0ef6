package io.millrace.bench.report;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** A report as plain text: settings, aligned tables, checks. */
public final class ReportText {
    private ReportText() {}

    public static String toText(Report report) {
        StringBuilder text = new StringBuilder();
        text.append("scenario ").append(report.scenario()).append('\n');
        report.config().forEach((key, value) -> text.append(String.format(Locale.ROOT, "  %-24s %s%n", key, value)));
        for (Table table : report.tables()) {
            text.append('\n').append(table.name()).append('\n');
            List<List<String>> lines = new ArrayList<>();
            lines.add(table.columns());
            for (Map<String, Object> row : table.rows()) {
                lines.add(table.columns().stream()
                        .map(column -> format(row.get(column)))
                        .toList());
            }
            align(text, lines);
        }
        if (!report.checks().isEmpty()) {
            text.append("\nchecks\n");
            List<List<String>> lines = new ArrayList<>();
            for (Check check : report.checks()) {
                String verdict = check.ok() == null ? "not measured" : check.ok() ? "ok" : "MISSED";
                lines.add(List.of(
                        check.name(), format(check.value()), check.op().sign(), format(check.limit()), verdict));
            }
            align(text, lines);
        }
        return text.toString();
    }

    /** Text of a cell; numbers with the digits that a measurement can have. */
    static String format(Object cell) {
        if (cell == null) {
            return "-";
        }
        if (!(cell instanceof Double number)) {
            return cell instanceof Number count
                    ? String.format(Locale.ROOT, "%,d", count.longValue())
                    : cell.toString();
        }
        double size = Math.abs(number);
        if (size >= 1000 || number == Math.rint(number) && size < 1e15) {
            return String.format(Locale.ROOT, "%,.0f", number);
        }
        return String.format(Locale.ROOT, size >= 100 ? "%.1f" : size >= 10 ? "%.2f" : "%.3f", number);
    }

    private static void align(StringBuilder text, List<List<String>> lines) {
        int[] widths = new int[lines.get(0).size()];
        for (List<String> line : lines) {
            for (int i = 0; i < widths.length; i++) {
                widths[i] = Math.max(widths[i], line.get(i).length());
            }
        }
        for (List<String> line : lines) {
            for (int i = 0; i < widths.length; i++) {
                String format = i == 0 ? "  %-" + widths[i] + "s" : "  %" + widths[i] + "s";
                text.append(String.format(Locale.ROOT, format, line.get(i)));
            }
            text.append('\n');
        }
    }
}
