package io.millrace.bench.report;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Rows of results under named columns; names carry their units. A cell is a Number, a String, a Boolean or null (not measured). */
public final class Table {
    private final String name;
    private final List<String> columns;
    private final List<Map<String, Object>> rows = new ArrayList<>();

    /**
     * An empty table.
     *
     * @param name its key in JSON, snake_case
     */
    public Table(String name, String... columns) {
        this.name = name;
        this.columns = List.of(columns);
    }

    /** Adds a row; one cell per column. NaN counts as not measured. */
    public Table add(Object... cells) {
        if (cells.length != columns.size()) {
            throw new IllegalArgumentException(
                    "table " + name + " has " + columns.size() + " columns, not " + cells.length);
        }
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < cells.length; i++) {
            boolean measured = !(cells[i] instanceof Double number) || Double.isFinite(number);
            row.put(columns.get(i), measured ? cells[i] : null);
        }
        rows.add(row);
        return this;
    }

    public String name() {
        return name;
    }

    public List<String> columns() {
        return columns;
    }

    public List<Map<String, Object>> rows() {
        return rows;
    }

    /** A column's numbers; NaN where a cell has none. */
    public double[] numbers(String column) {
        return rows.stream()
                .mapToDouble(row -> row.get(column) instanceof Number number ? number.doubleValue() : Double.NaN)
                .toArray();
    }
}
