package io.millrace.bench.scenario;

import io.millrace.bench.report.Check.Op;
import io.millrace.bench.report.Plot;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.Table;
import io.millrace.bench.tier.Hardware;
import io.millrace.bench.tier.PaperCell;
import io.millrace.bench.tier.VirtualCell;
import io.millrace.bench.tier.VirtualGrid;
import io.millrace.bench.tier.VirtualResult;
import io.millrace.bench.tier.VirtualRun;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;

/**
 * The published tables on virtual time, printed as they are beside their figures: the engine's own scheduler and loader over
 * a device and a store that only take their time.
 */
final class TierVirtualPart {
    private static final double EXCLUDED_FROM_MEANS = 10; // as published
    private static final int NUM_SEEDS = 5;
    private static final String LEGEND = "ours [published] x ideal";

    private final BenchSettings settings;
    private final Report report;
    private final List<PaperCell> published = PaperCell.readAll();
    private final VirtualGrid grid = new VirtualGrid();

    TierVirtualPart(BenchSettings settings, Report report) {
        this.settings = settings;
        this.report = report;
    }

    void run() {
        report.config("virtual_cells", "speedup over loading alone \\ over computing alone; " + LEGEND);
        settings.say("tier, virtual time: tables 3 to 6 as published");
        table(3, "table3_hardware", new String[] {"hardware", "compute_percent"}, this::byMachine, this::gbpsColumn);
        table(
                4,
                "table4_length",
                new String[] {"hardware", "gbps", "compute_percent"},
                this::byLink,
                this::lengthColumn);
        table(5, "table5_model", new String[] {"compute_percent", "gbps"}, this::byShare, this::modelColumn);
        table(6, "table6_bits", new String[] {"gbps"}, this::byGbps, this::bitsColumn);
        means();
        plots();
        if (settings.full()) {
            wholeGrid();
        }
        fluctuation();
        mixed();
        checks();
    }

    private List<Object> byMachine(PaperCell cell) {
        return List.of(cell.hardware().label(), cell.computePercent());
    }

    private List<Object> byLink(PaperCell cell) {
        return List.of(cell.hardware().label(), cell.gbps(), cell.computePercent());
    }

    private List<Object> byShare(PaperCell cell) {
        return List.of(cell.computePercent(), cell.gbps());
    }

    private List<Object> byGbps(PaperCell cell) {
        return List.of(cell.gbps());
    }

    private String gbpsColumn(PaperCell cell) {
        return String.format(Locale.ROOT, "%.0f Gbps", cell.gbps());
    }

    private String lengthColumn(PaperCell cell) {
        return cell.numTokens() / 1024 + "k";
    }

    private String modelColumn(PaperCell cell) {
        return cell.model().label();
    }

    private String bitsColumn(PaperCell cell) {
        return cell.bits() + " bits";
    }

    /** One published table: a row for equal row keys, a column for equal column names, in the order of the cells. */
    private void table(
            int number,
            String name,
            String[] rowColumns,
            Function<PaperCell, List<Object>> rowKey,
            Function<PaperCell, String> column) {
        List<String> columns = new ArrayList<>(List.of(rowColumns));
        Map<List<Object>, Map<String, String>> rows = new LinkedHashMap<>();
        for (PaperCell cell : published) {
            if (cell.table() == number) {
                String title = column.apply(cell);
                if (!columns.contains(title)) {
                    columns.add(title);
                }
                rows.computeIfAbsent(rowKey.apply(cell), key -> new LinkedHashMap<>())
                        .put(title, text(cell, grid.result(VirtualGrid.cell(cell))));
            }
        }
        Table table = report.table(name, columns.toArray(String[]::new));
        rows.forEach((key, cells) -> {
            List<Object> row = new ArrayList<>(key);
            row.addAll(cells.values());
            table.add(row.toArray());
        });
    }

    private static String text(PaperCell cell, VirtualResult result) {
        return String.format(
                Locale.ROOT,
                "%.2f\\%.2f [%.2f\\%.2f] %.3f",
                result.overIo(),
                result.overCompute(),
                cell.overIo(),
                cell.overCompute(),
                result.overIdeal());
    }

    /** The means that are published with Table 3: without what is above ten times over a resource. */
    private void means() {
        Table table = report.table("table3_means", "over", "ours", "published", "cells");
        mean(table, "loading alone", PaperCell::overIo, VirtualResult::overIo);
        mean(table, "computing alone", PaperCell::overCompute, VirtualResult::overCompute);
    }

    private void mean(
            Table table, String name, Function<PaperCell, Double> ofPublished, Function<VirtualResult, Double> ofOurs) {
        double sumPublished = 0;
        double sumOurs = 0;
        int count = 0;
        for (PaperCell cell : published) {
            if (cell.table() == 3 && Math.max(cell.overIo(), cell.overCompute()) <= EXCLUDED_FROM_MEANS) {
                sumPublished += ofPublished.apply(cell);
                sumOurs += ofOurs.apply(grid.result(VirtualGrid.cell(cell)));
                count++;
            }
        }
        table.add(name, sumOurs / count, sumPublished / count, count);
    }

    private void plots() {
        for (double percent : List.of(12.5, 100.0)) {
            String title = String.format(Locale.ROOT, "13B, 2xA100, 16k tokens, %.1f %% of the compute", percent);
            Table table =
                    new Table("plot", "gbps", "seconds", "ideal", "loading alone", "computing alone", "published");
            for (PaperCell cell : published) {
                if (cell.table() == 3 && cell.hardware() == Hardware.TWO_A100 && cell.computePercent() == percent) {
                    VirtualResult result = grid.result(VirtualGrid.cell(cell));
                    table.add(
                            cell.gbps(),
                            result.seconds(),
                            result.idealSeconds(),
                            result.ioAloneSeconds(),
                            result.computeAloneSeconds(),
                            result.ioAloneSeconds() / cell.overIo());
                }
            }
            report.plot(Plot.of(
                    title + ": seconds to the first token by Gbps",
                    table,
                    "gbps",
                    "seconds",
                    "ideal",
                    "loading alone",
                    "computing alone",
                    "published"));
        }
    }

    /** All combinations, with both token budgets; a line for each model, machine and number of bits. */
    private void wholeGrid() {
        Table table = report.table(
                "whole_grid",
                "token_budget",
                "model",
                "hardware",
                "bits",
                "cells",
                "mean_over_io",
                "mean_over_compute",
                "mean_over_ideal",
                "mean_own_share_over_given",
                "worst_over_ideal",
                "worst_over_fluid_ideal",
                "worst_share_of_limit",
                "least_over_better");
        for (int budget : List.of(VirtualGrid.MAX_NUM_BATCHED_TOKENS, VirtualGrid.LARGE_NUM_BATCHED_TOKENS)) {
            Map<List<Object>, List<VirtualResult>> groups = new LinkedHashMap<>();
            for (VirtualCell cell : VirtualGrid.allCells(budget)) {
                List<Object> key =
                        List.of(budget, cell.model().label(), cell.hardware().label(), cell.bits());
                groups.computeIfAbsent(key, k -> new ArrayList<>()).add(grid.result(cell));
            }
            groups.forEach((key, results) -> addGroup(table, key, results));
            settings.say("tier, virtual time: all cells of a budget of %d tokens", budget);
        }
    }

    private static void addGroup(Table table, List<Object> key, List<VirtualResult> results) {
        List<Object> row = new ArrayList<>(key);
        row.add(results.size());
        row.add(mean(results, VirtualResult::overIo));
        row.add(mean(results, VirtualResult::overCompute));
        row.add(mean(results, VirtualResult::overIdeal));
        row.add(mean(results, VirtualResult::shareOverGiven));
        row.add(worst(results, VirtualResult::overIdeal).overIdeal());
        row.add(worst(results, VirtualResult::overFluidIdeal).overFluidIdeal());
        row.add(worst(results, VirtualResult::shareOfLimit).shareOfLimit());
        row.add(worst(results, result -> -result.overBetter()).overBetter());
        table.add(row.toArray());
    }

    private void fluctuation() {
        Table table = report.table(
                "fluctuation",
                "hardware",
                "seed",
                "seconds",
                "ideal_s",
                "over_ideal",
                "share_of_limit",
                "over_io",
                "over_compute");
        List<VirtualResult> results = new ArrayList<>();
        for (Hardware hardware : Hardware.values()) {
            for (long seed = 1; seed <= NUM_SEEDS; seed++) {
                VirtualResult result = grid.fluctuation(hardware, seed);
                results.add(result);
                table.add(
                        hardware.label(),
                        seed,
                        result.seconds(),
                        result.idealSeconds(),
                        result.overIdeal(),
                        result.shareOfLimit(),
                        result.overIo(),
                        result.overCompute());
            }
        }
        check("fluctuation, worst seed", results);
    }

    private void mixed() {
        VirtualRun.MixedOutcome arrival = grid.mixed(false);
        VirtualRun.MixedOutcome adaptive = grid.mixed(true);
        report.table("mixed_virtual", "order", "all_s", "published_all_s", "stored_s")
                .add("of arrival", arrival.allSeconds(), 1.5, arrival.storedSeconds())
                .add("adaptive", adaptive.allSeconds(), 1.19, adaptive.storedSeconds());
        report.check(
                "mixed, virtual time: order of arrival over adaptive, time until all have ended",
                arrival.allSeconds() / adaptive.allSeconds(),
                Op.AT_LEAST,
                1.2);
        report.check(
                "mixed, virtual time: adaptive over order of arrival, the stored prompt's first token",
                adaptive.storedSeconds() / arrival.storedSeconds(),
                Op.AT_MOST,
                1.5);
    }

    private void checks() {
        List<VirtualResult> results = grid.results();
        report.config("virtual_cells_run", results.size());
        check("virtual time, worst of " + results.size() + " cells", results);
        report.check(
                "virtual time, worst of " + results.size()
                        + " cells: share of the computed tokens over the share given",
                worst(results, VirtualResult::shareOverGiven).shareOverGiven(),
                Op.AT_MOST,
                1.01);
        Table table = report.table(
                "virtual_worst",
                "by",
                "model",
                "hardware",
                "gbps",
                "compute_percent",
                "tokens",
                "bits",
                "token_budget",
                "seconds",
                "ideal_s",
                "over_ideal",
                "share_of_limit",
                "over_io",
                "over_compute",
                "own_share");
        addWorst(table, "limit", worst(results, VirtualResult::shareOfLimit));
        addWorst(table, "ideal", worst(results, VirtualResult::overIdeal));
        addWorst(table, "single resource", worst(results, result -> -result.overBetter()));
    }

    private void check(String what, List<VirtualResult> results) {
        report.check(
                what + ": time over max(1.08 ideal, ideal + a chunk)",
                worst(results, VirtualResult::shareOfLimit).shareOfLimit(),
                Op.AT_MOST,
                1);
        report.check(
                what + ": speedup over the better resource alone",
                worst(results, result -> -result.overBetter()).overBetter(),
                Op.AT_LEAST,
                0.98);
    }

    private static void addWorst(Table table, String by, VirtualResult result) {
        VirtualCell cell = result.cell();
        table.add(
                by,
                cell.model().label(),
                cell.hardware().label(),
                cell.gbps(),
                cell.computePercent(),
                cell.numTokens(),
                cell.bits(),
                cell.maxNumBatchedTokens(),
                result.seconds(),
                result.idealSeconds(),
                result.overIdeal(),
                result.shareOfLimit(),
                result.overIo(),
                result.overCompute(),
                result.computedShare());
    }

    private static double mean(List<VirtualResult> results, Function<VirtualResult, Double> value) {
        return results.stream().mapToDouble(value::apply).average().orElse(Double.NaN);
    }

    private static VirtualResult worst(List<VirtualResult> results, Function<VirtualResult, Double> value) {
        return results.stream()
                .max((left, right) -> Double.compare(value.apply(left), value.apply(right)))
                .orElseThrow();
    }
}
