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
 * @param bfloat16 whether that comes to bfloat16 here
 * @param bytesPerWeight of the matrices, as the engine holds them then
 * @param numThreads compute threads; 0 means all cores
 * @param full report sizes instead of sizes that stay under a minute
 * @param seed of prompts, lengths and draws
 * @param home where state that outlives a run may lie
 * @param log where progress goes
 */
public record BenchSettings(
        BenchModel model,
        Dtype dtype,
        boolean bfloat16,
        int bytesPerWeight,
        int numThreads,
        boolean full,
        long seed,
        Path home,
        PrintStream log) {

    /** Settings with the number format that the dtype comes to for this model on this machine. */
    public static BenchSettings of(
            BenchModel model, Dtype dtype, int numThreads, boolean full, long seed, Path home, PrintStream log) {
        boolean bfloat16 = Machine.isBfloat16(model, dtype);
        int bytesPerWeight = bfloat16 || Machine.keepsBfloat16Weights(model) ? 2 : 4;
        return new BenchSettings(model, dtype, bfloat16, bytesPerWeight, numThreads, full, seed, home, log);
    }

    /** The same for another model. */
    BenchSettings withModel(BenchModel other) {
        return of(other, dtype, numThreads, full, seed, home, log);
    }

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
