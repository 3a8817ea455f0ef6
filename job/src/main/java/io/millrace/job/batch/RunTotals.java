package io.millrace.job.batch;

import com.fasterxml.jackson.databind.JsonNode;
import io.millrace.job.cluster.ProcessMemory;
import io.millrace.job.state.AtomicFiles;
import io.millrace.operators.inference.JobCounts;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Figures that Flink's state does not carry from start to start: time spent, tokens restored, preemptions, peaks. Kept in a small
 * file that is renewed while the job runs, so that a kill loses a second of them at most. One thread.
 */
final class RunTotals {

    private static final long SAVE_PERIOD_NANOS = 1_000_000_000L;

    private final Path file;
    private final long startNanos = System.nanoTime();
    private final double secondsBefore;
    private final int numStarts;
    private double peakKvCacheUsage;
    private long peakMemoryBytes;
    private long lastSaveNanos;
    private final GrowingCount restoredTokens;
    private final GrowingCount preemptions;

    /** A count that begins at zero again whenever the job restarts, added up over all restarts. */
    private static final class GrowingCount {
        private long base;
        private long last;

        GrowingCount(long base) {
            this.base = base;
        }

        void update(long now) {
            if (now < last) {
                base += last;
            }
            last = now;
        }

        long total() {
            return base + last;
        }
    }

    private RunTotals(Path file, Optional<JsonNode> before) {
        this.file = file;
        this.secondsBefore = before.map(node -> node.path("seconds").asDouble()).orElse(0.0);
        this.numStarts = before.map(node -> node.path("starts").asInt()).orElse(0) + 1;
        this.restoredTokens = new GrowingCount(
                before.map(node -> node.path("restored_tokens").asLong()).orElse(0L));
        this.preemptions = new GrowingCount(
                before.map(node -> node.path("preemptions").asLong()).orElse(0L));
        this.peakKvCacheUsage =
                before.map(node -> node.path("peak_kv_cache_usage").asDouble()).orElse(0.0);
        this.peakMemoryBytes =
                before.map(node -> node.path("peak_memory_bytes").asLong()).orElse(0L);
    }

    /** Goes on from what earlier starts left. */
    static RunTotals open(Path stateDirectory) {
        Path file = stateDirectory.resolve("totals.json");
        return new RunTotals(file, AtomicFiles.read(file));
    }

    void update(JobCounts counts) {
        restoredTokens.update(counts.numRestoredTokens());
        preemptions.update(counts.numPreemptions());
        peakKvCacheUsage = Math.max(peakKvCacheUsage, counts.peakKvCacheUsage());
        long now = System.nanoTime();
        if (now - lastSaveNanos >= SAVE_PERIOD_NANOS) {
            lastSaveNanos = now;
            save();
        }
    }

    void save() {
        AtomicFiles.write(file, figures());
    }

    /** The totals up to now, under the summary's names. */
    Map<String, Object> figures() {
        peakMemoryBytes = Math.max(peakMemoryBytes, ProcessMemory.peakBytes());
        Map<String, Object> figures = new LinkedHashMap<>();
        figures.put("restored_tokens", restoredTokens.total());
        figures.put("seconds", Math.round(1000 * seconds()) / 1000.0);
        figures.put("starts", numStarts);
        figures.put("preemptions", preemptions.total());
        figures.put("peak_kv_cache_usage", Math.round(1e6 * peakKvCacheUsage) / 1e6);
        figures.put("peak_memory_bytes", peakMemoryBytes);
        return figures;
    }

    double seconds() {
        return secondsBefore + (System.nanoTime() - startNanos) / 1e9;
    }
}
