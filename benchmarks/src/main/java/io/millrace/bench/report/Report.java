package io.millrace.bench.report;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** One run of a scenario: what was set, what came out, and whether it reaches its limits. One thread. */
public final class Report {
    private final String scenario;
    private final Map<String, Object> config = new LinkedHashMap<>();
    private final List<Table> tables = new ArrayList<>();
    private final List<Plot> plots = new ArrayList<>();
    private final List<Check> checks = new ArrayList<>();

    public Report(String scenario) {
        this.scenario = scenario;
    }

    /** Notes a setting or a fact of the machine. */
    public Report config(String key, Object value) {
        config.put(key, value);
        return this;
    }

    public Table table(String name, String... columns) {
        Table table = new Table(name, columns);
        tables.add(table);
        return table;
    }

    public void plot(Plot plot) {
        plots.add(plot);
    }

    /** Adds a check; a value that is null or not finite could not be measured. */
    public void check(String name, Double value, Check.Op op, double limit) {
        checks.add(Check.of(name, value, op, limit));
    }

    public String scenario() {
        return scenario;
    }

    public Map<String, Object> config() {
        return config;
    }

    public List<Table> tables() {
        return tables;
    }

    public List<Plot> plots() {
        return plots;
    }

    public List<Check> checks() {
        return checks;
    }

    /** Whether every check is known to hold. */
    public boolean allChecksHold() {
        return checks.stream().allMatch(Check::holds);
    }
}
