package io.millrace.backend.cpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Bits of JVMs of their own: one that interprets, and ones whose first run is interpreted and whose last is compiled; with one
 * compute thread and with two. Interpreted vectors are slow: on the demo model only the kernels themselves are interpreted, and
 * its prompt is short; the golden model's reaches attention's second tile.
 */
class SeparateJvmsTest {
    private static final int ENOUGH_RUNS_TO_COMPILE = 20;

    @ParameterizedTest
    @CsvSource({
        "src/test/resources/golden/models/llama, FLOAT32, 70, -Xint",
        "src/test/resources/golden/models/llama, BFLOAT16, 70, -Xint",
        "../models/millrace-tiny, BFLOAT16, 21, '-XX:CompileCommand=exclude,io.millrace.kernels.*::*'"
    })
    void compilersAndThreadsDoNotShow(String model, String dtype, String promptTokens, String interpreting)
            throws IOException, InterruptedException {
        assumeTrue(dtype.equals("FLOAT32") || OneDnn.hasBfloat16(), "this CPU has no bfloat16 arithmetic");
        List<String> workload = List.of(model, dtype, promptTokens);
        Set<String> compiled = digests(workload, 2, ENOUGH_RUNS_TO_COMPILE);
        assertEquals(1, compiled.size(), "from run to run, as compilers come in: " + compiled);
        assertEquals(compiled, digests(workload, 1, 3), "one thread");
        assertEquals(compiled, digests(workload, 2, 1, interpreting), "interpreted");
        assertEquals(compiled, digests(workload, 2, 3, "-XX:UseAVX=2"), "kernels on vectors of 256 bits");
    }

    /** A CPU without AVX-512, as far as the library and the kernels can be told that this one is. */
    @Test
    void threadsDoNotShowOnACpuWithoutAvx512() throws IOException, InterruptedException {
        List<String> workload = List.of("src/test/resources/golden/models/llama", "FLOAT32", "70");
        Map<String, String> environment = Map.of("ONEDNN_MAX_CPU_ISA", "AVX2");
        Set<String> digests = digests(environment, workload, 2, ENOUGH_RUNS_TO_COMPILE, "-XX:UseAVX=2");
        assertEquals(1, digests.size(), "from run to run, as compilers come in: " + digests);
        assertEquals(digests, digests(environment, workload, 1, 1, "-XX:UseAVX=2"), "one thread");
    }

    private static Set<String> digests(List<String> workload, int numThreads, int numRuns, String... jvmOptions)
            throws IOException, InterruptedException {
        return digests(Map.of(), workload, numThreads, numRuns, jvmOptions);
    }

    /** The different digests that a JVM with these options prints. */
    private static Set<String> digests(
            Map<String, String> environment, List<String> workload, int numThreads, int numRuns, String... jvmOptions)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(argument -> argument.startsWith("--add-") || argument.startsWith("--enable-"))
                .forEach(command::add);
        command.addAll(List.of(jvmOptions));
        command.addAll(List.of("-Xmx512m", "-cp", System.getProperty("java.class.path")));
        command.add(BitDigest.class.getName());
        command.addAll(workload);
        command.addAll(List.of(Integer.toString(numThreads), Integer.toString(numRuns)));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().putAll(environment);
        Process process = builder.start();
        String output;
        try {
            output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } finally {
            process.destroyForcibly();
        }
        assertEquals(0, process.waitFor(), output);
        List<String> lines =
                output.lines().filter(line -> line.startsWith("digest ")).toList();
        assertEquals(numRuns, lines.size(), output);
        return new TreeSet<>(lines);
    }
}
