package io.millrace.bench.report;

import java.util.List;

/**
 * Lines over one axis, taken from a table's columns.
 *
 * @param title what it shows
 * @param table where the numbers are
 * @param x column of the horizontal axis
 * @param series columns of the lines
 */
public record Plot(String title, Table table, String x, List<String> series) {
    public Plot {
        series = List.copyOf(series);
    }

    public static Plot of(String title, Table table, String x, String... series) {
        return new Plot(title, table, x, List.of(series));
    }
}
