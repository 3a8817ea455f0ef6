package io.millrace.bench.scenario;

import io.millrace.backend.Dtype;
import io.millrace.bench.model.BenchModel;
import java.io.PrintStream;
import java.nio.file.Path;

/**
 * What all scenarios have in common.
 *
 * @param model what is measured
 * @param dtype compute and KV dtype
 * @param numThreads compute threads; 0 means all cores
 * @param full report sizes instead of sizes that stay under a minute
 * @param seed of prompts, lengths and draws
 * @param home where state that outlives a run may lie
 * @param log where progress goes
 */
public record BenchSettings(
        BenchModel model, Dtype dtype, int numThreads, boolean full, long seed, Path home, PrintStream log) {

    int numCeilingThreads() {
        return numThreads == 0 ? Runtime.getRuntime().availableProcessors() : numThreads;
    }

    int pick(int quick, int inFull) {
        return full ? inFull : quick;
    }

    void say(String format, Object... arguments) {
        log.println("bench: " + String.format(java.util.Locale.ROOT, format, arguments));
    }
}
