package io.millrace.bench.cli;

import io.millrace.backend.Dtype;
import io.millrace.bench.model.BenchModel;
import io.millrace.bench.report.Report;
import io.millrace.bench.report.ReportHtml;
import io.millrace.bench.report.ReportJson;
import io.millrace.bench.report.ReportText;
import io.millrace.bench.scenario.BenchSettings;
import io.millrace.bench.scenario.Scenario;
import io.millrace.engine.InvalidConfigException;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** What the scenarios' commands have in common: the model, sizes, outputs and the exit code. */
abstract class ScenarioCommand implements Callable<Integer> {
    @Option(
            names = {"--model", "--shape"},
            paramLabel = "DIR|SHAPE",
            description = "Model directory, named shape (smollm2-135m, qwen2.5-0.5b, llama-3.2-1b, ...) or config.json;"
                    + " the latter two get random weights. Default: ${DEFAULT-VALUE}.")
    String model = "smollm2-135m";

    @Option(names = "--full", description = "Sizes for reports: minutes instead of seconds.")
    boolean full;

    @Option(
            names = "--check",
            description = "Exit with 1 unless every check is measured and holds. Without it the exit code is 0.")
    boolean check;

    @Option(names = "--json", paramLabel = "FILE", description = "Write the report as JSON.")
    Path json;

    @Option(names = "--html", paramLabel = "FILE", description = "Write the report as an HTML page with plots.")
    Path html;

    @Option(
            names = "--dtype",
            paramLabel = "TYPE",
            description = "auto, bfloat16 or float32. Default: ${DEFAULT-VALUE}.")
    String dtype = "auto";

    @Option(
            names = "--num-threads",
            paramLabel = "N",
            description = "Threads of the engine and of the ceilings. 0 (default) takes all cores.")
    int numThreads;

    @Option(names = "--seed", paramLabel = "NUMBER", description = "Of prompts and draws. Default: ${DEFAULT-VALUE}.")
    long seed = 1;

    @Mixin
    HelpMixin help;

    @Spec
    CommandSpec spec;

    /** The scenario as the options have it. */
    abstract Scenario scenario();

    @Override
    public Integer call() throws InterruptedException {
        if (numThreads < 0) {
            throw new InvalidConfigException(
                    "--num-threads", numThreads, "must not be negative", "use 0 for all cores");
        }
        Dtype chosen = dtype();
        Scenario scenario = scenario();
        BenchModel resolved = BenchModel.resolve(model, home().resolve("bench-models"));
        BenchSettings settings =
                BenchSettings.of(resolved, chosen, numThreads, full, seed, home().resolve("bench"), System.err);
        Report report = scenario.run(settings);
        PrintWriter out = spec.commandLine().getOut();
        out.print(ReportText.toText(report));
        out.flush();
        write(report);
        return check && !report.allChecksHold() ? 1 : 0;
    }

    private Dtype dtype() {
        for (Dtype candidate : Dtype.values()) {
            if (candidate.optionName().equals(dtype.toLowerCase(Locale.ROOT))) {
                return candidate;
            }
        }
        throw new InvalidConfigException("--dtype", dtype, "must be auto, bfloat16 or float32", "leave it out");
    }

    private void write(Report report) {
        try {
            if (json != null) {
                ReportJson.write(report, json);
            }
            if (html != null) {
                ReportHtml.write(report, html);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("the report could not be written: " + e.getMessage(), e);
        }
    }

    /** Where the launcher keeps what outlives a run. */
    static Path home() {
        return Path.of(System.getProperty("millrace.home", ".millrace"))
                .toAbsolutePath()
                .normalize();
    }

    /** The numbers of an option, each within limits; null where it was not given. */
    static List<Integer> numbers(String option, List<Integer> values, int min, int max) {
        if (values == null) {
            return null;
        }
        values.forEach(value -> number(option, value, min, max));
        return values;
    }

    static int number(String option, int value, int min, int max) {
        if (value < min || value > max) {
            throw new InvalidConfigException(
                    option, value, "must be between " + min + " and " + max, "leave it out for the default");
        }
        return value;
    }
}
