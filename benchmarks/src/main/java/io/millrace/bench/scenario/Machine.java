package io.millrace.bench.scenario;

import io.millrace.backend.Dtype;
import io.millrace.backend.cpu.CpuBackendProvider;
import io.millrace.bench.ceiling.Ceilings;
import io.millrace.bench.model.BenchModel;
import io.millrace.bench.report.Report;
import io.millrace.model.ModelDirectory;
import io.millrace.model.ModelSpec.Weight;
import io.millrace.model.StorageType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** Facts of the machine and of the run that belong to every report. */
final class Machine {
    private Machine() {}

    static Report newReport(String scenario, BenchSettings settings) {
        return new Report(scenario)
                .config("model", settings.model().shape().name())
                .config("random_weights", settings.model().isRandom())
                .config("dtype", settings.bfloat16() ? "bfloat16" : "float32")
                .config("num_threads", settings.numCeilingThreads())
                .config("full", settings.full())
                .config("seed", settings.seed())
                .config("cpu", cpuModel())
                .config("num_cores", Runtime.getRuntime().availableProcessors())
                .config("java", System.getProperty("java.vm.name") + " " + System.getProperty("java.runtime.version"))
                .config("onednn", Ceilings.libraryVersion())
                .config("load_average_at_start", loadAverage());
    }

    /** Whether the engine computes in bfloat16 with these settings: the rule of its device, asked in advance. */
    static boolean isBfloat16(BenchModel model, Dtype dtype) {
        if (dtype != Dtype.AUTO) {
            return dtype == Dtype.BFLOAT16;
        }
        StorageType stored = stored(model);
        return Ceilings.hasBfloat16() && (stored == StorageType.BF16 || stored == StorageType.F16);
    }

    /** Whether the engine holds the model's matrices in bfloat16 even if it computes in float32. */
    static boolean keepsBfloat16Weights(BenchModel model) {
        return CpuBackendProvider.keepsBfloat16Weights() && stored(model) == StorageType.BF16;
    }

    private static StorageType stored(BenchModel model) {
        return ModelDirectory.open(model.directory()).weight(Weight.QUERY, 0).storageType();
    }

    private static double loadAverage() {
        return java.lang.management.ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage();
    }

    private static String cpuModel() {
        try (Stream<String> lines = Files.lines(Path.of("/proc/cpuinfo"))) {
            return lines.filter(line -> line.startsWith("model name"))
                    .map(line -> line.substring(line.indexOf(':') + 1).strip())
                    .findFirst()
                    .orElse("unknown");
        } catch (IOException e) {
            return "unknown";
        }
    }
}
