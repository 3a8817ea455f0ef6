package io.millrace.kernels;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * That C2 leaves no vector on the heap, whatever was compiled before: in a JVM of its own, since what is compiled there depends on
 * all that ran, and with compilers that are waited for, so that it depends on nothing else. On the vectors that the CPU has, and on 256 bits.
 */
class BoxedVectorsTest {
    private static final int NUM_KERNELS = 22;

    @ParameterizedTest
    @ValueSource(ints = {3, 2})
    void kernelsDoNotBoxVectorsAfterOthersHaveRun(int maxAvx) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
                .filter(argument -> argument.startsWith("--add-"))
                .forEach(command::add);
        command.addAll(List.of(
                "-XX:+IgnoreUnrecognizedVMOptions",
                "-XX:UseAVX=" + maxAvx,
                "-Xbatch",
                "-Xmx256m",
                "-cp",
                System.getProperty("java.class.path")));
        command.add(BoxedVectorsMain.class.getName());
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output;
        try {
            output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } finally {
            process.destroyForcibly();
        }
        assertEquals(0, process.waitFor(), output);
        List<String> lines =
                output.lines().filter(line -> line.startsWith("allocated ")).toList();
        assertEquals(NUM_KERNELS, lines.size(), output);
        for (String line : lines) {
            assertEquals("0", line.split(" ")[1], output);
        }
    }
}
