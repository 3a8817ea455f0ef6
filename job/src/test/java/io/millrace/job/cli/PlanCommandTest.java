package io.millrace.job.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.millrace.backend.cpu.CpuDeviceProbe;
import io.millrace.plan.NamedShapes;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;

class PlanCommandTest {
    private static final String[] EXAMPLE = {
        "--model", "llama-3-8b", "--device", "h100", "--kv-cache-memory-bytes", "50g", "--preempted", "1500"
    };
    private static final CpuDeviceProbe.Rates WITH_BFLOAT16 = rates(OptionalDouble.of(900e9), true);

    private int numMeasurements;

    @Test
    void pageShowsTheExampleAsItIsPrinted() throws IOException {
        Run run = run(WITH_BFLOAT16, EXAMPLE);
        assertEquals(0, run.exitCode(), run.err());
        String page = Files.readString(Path.of("../docs/planner.md"));
        assertTrue(page.contains("./millrace plan " + String.join(" ", EXAMPLE) + "\n"));
        assertTrue(page.contains("```\n" + run.out() + "```\n"), () -> "docs/planner.md does not hold\n" + run.out());
        assertEquals(0, numMeasurements);
    }

    @Test
    void pageExplainsEveryOption() throws IOException {
        String page = Files.readString(Path.of("../docs/planner.md"));
        new CommandLine(new PlanCommand())
                .getCommandSpec().optionsMap().keySet().stream()
                        .filter(name -> name.startsWith("--") && !name.equals("--help"))
                        .forEach(name -> assertTrue(page.contains("`" + name + "`"), name));
    }

    @Test
    void helpNamesEveryShape() {
        Run run = run(WITH_BFLOAT16, "--help");
        assertEquals(0, run.exitCode());
        String help = run.out().replaceAll("\\s+", " ");
        NamedShapes.names().forEach(name -> assertTrue(help.contains(name), name));
    }

    @Test
    void jsonGoesToAFileBesideTheTableOrToStandardOutputAlone(@TempDir Path directory) throws IOException {
        Path file = directory.resolve("plan.json");
        Run toFile = run(WITH_BFLOAT16, with(EXAMPLE, "--json", file.toString()));
        Run toOutput = run(WITH_BFLOAT16, with(EXAMPLE, "--json", "-"));
        assertTrue(toFile.out().startsWith("Assumptions\n"), toFile.out());
        assertEquals(Files.readString(file), toOutput.out());
        JsonNode plan = new ObjectMapper().readTree(toOutput.out());
        assertEquals(1, plan.path("format_version").intValue());
        assertEquals(186, plan.at("/memory/max_sequences").intValue());
        assertEquals("swap", plan.at("/preemption/cheaper").textValue());
    }

    @Test
    void jsonFileThatCannotBeWrittenIsNamed(@TempDir Path directory) {
        String file = directory.resolve("absent/plan.json").toString();
        Run run = run(WITH_BFLOAT16, with(EXAMPLE, "--json", file));
        assertEquals(1, run.exitCode());
        assertTrue(run.err().contains("option --json = " + file + ": cannot be written"), run.err());
    }

    @Test
    void thisMachineIsMeasuredOnce() throws IOException {
        Run run = run(WITH_BFLOAT16, "--model", "smollm2-135m", "--json", "-");
        assertEquals(0, run.exitCode(), run.err());
        assertEquals(1, numMeasurements);
        JsonNode assumptions = new ObjectMapper().readTree(run.out()).path("assumptions");
        assertEquals(40e9, assumptions.path("memory_bytes_per_second").doubleValue());
        assertEquals(900e9, assumptions.path("gemm_flops_per_second").doubleValue());
        assertEquals(200e9, assumptions.path("attention_flops_per_second").doubleValue());
        assertEquals(15e9, assumptions.path("link_bytes_per_second").doubleValue());
        assertEquals(2, assumptions.path("bytes_per_parameter").doubleValue());
        assertTrue(assumptions.path("device_source").textValue().startsWith("measured"), assumptions::toString);
    }

    @Test
    void machineWithoutBfloat16IsPlannedInFloat32() throws IOException {
        JsonNode plan = planWithoutBfloat16(false);
        assertEquals(200e9, plan.at("/assumptions/gemm_flops_per_second").doubleValue());
        assertEquals(4 * 134_515_008.0, plan.at("/memory/weight_bytes").doubleValue());
        assertEquals(46_080, plan.at("/memory/kv_bytes_per_token").doubleValue());
    }

    @Test
    void weightsThatStayAsStoredAreCountedSo() throws IOException {
        JsonNode plan = planWithoutBfloat16(true);
        assertEquals(200e9, plan.at("/assumptions/gemm_flops_per_second").doubleValue());
        assertEquals(2 * 134_515_008.0, plan.at("/memory/weight_bytes").doubleValue());
        assertEquals(46_080, plan.at("/memory/kv_bytes_per_token").doubleValue());
    }

    private JsonNode planWithoutBfloat16(boolean keepsBfloat16Weights) throws IOException {
        CpuDeviceProbe.Rates rates = rates(OptionalDouble.empty(), keepsBfloat16Weights);
        return new ObjectMapper()
                .readTree(run(rates, "--model", "smollm2-135m", "--json", "-").out());
    }

    @Test
    void givenRatesReplaceTheDevices() throws IOException {
        Run run = run(
                WITH_BFLOAT16,
                with(
                        EXAMPLE,
                        "--memory-bandwidth=1.5t",
                        "--peak-flops=500t/s",
                        "--link-bandwidth=25g",
                        "--device-memory=96g",
                        "--tensor-parallel-size=2",
                        "--json=-"));
        JsonNode assumptions = new ObjectMapper().readTree(run.out()).path("assumptions");
        assertEquals(3e12, assumptions.path("memory_bytes_per_second").doubleValue());
        assertEquals(1e15, assumptions.path("gemm_flops_per_second").doubleValue());
        assertEquals(50e9, assumptions.path("link_bytes_per_second").doubleValue());
        assertEquals(192_000_000_000L, assumptions.path("device_memory_bytes").longValue());
        assertTrue(
                assumptions
                        .path("device_source")
                        .textValue()
                        .contains("given: --memory-bandwidth, --peak-flops, --link-bandwidth, --device-memory"),
                assumptions::toString);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            --model lama-3-8b --device h100 | option --model = lama-3-8b: is neither a path nor a known shape
            --model lama-3-8b --device h100 | did you mean llama-3-8b?
            --model llama-3-8b --device h10 | option --device = h10: is not one of h100, h200, a100, this
            --model llama-3-8b --device h10 | did you mean h100?
            --model llama-3-8b --device h100 --context 0 | option --context = 0: must lie in [1, 8192]
            --model llama-3-8b --device h100 --context 9000 | option --context = 9000: must lie in [1, 8192]
            --model llama-3-8b --device h100 --max-model-len 9000 | option --max-model-len = 9000: must lie in [1, 8192]
            --model llama-3-8b --device h100 --prompt 8192 --output 1 | option --output = 1: with --prompt = 8192
            --model llama-3-8b --device h100 --batch-sizes 1,0 | option --batch-sizes = 0: must lie in [1, 1000000]
            --model llama-3-8b --device h100 --tpot 0ms | option --tpot = 0.0: must be a positive number
            --model llama-3-8b --device h100 --tpot soon | 'soon' is not a duration
            --model llama-3-8b --device h100 --acceptance-rate 2 | option --acceptance-rate = 2.0: must lie in [0, 1]
            --model llama-3-8b --device h100 --disk-bandwidth 2GB | '2GB' is not a rate above 0
            --model llama-3-8b --device h100 --disk-bandwidth 0 | '0' is not a rate above 0
            --model llama-3-8b --device h100 --block-size 0 | option --block-size = 0: must be at least 1
            --model llama-3-8b --device h100 --bytes-per-parameter 0 | option --bytes-per-parameter = 0.0: must be a positive
            --model llama-3-8b --device h100 --tensor-parallel-size 0 | option --tensor-parallel-size = 0: must be at least 1
            --model llama-3-8b --device h100 --gpu-memory-utilization 1.5 | option --gpu-memory-utilization = 1.5: must lie in
            --model llama-3-8b --device h100 --gpu-memory-utilization 0.9 --kv-cache-memory-bytes 1g | contradicts
            --model llama-3-70b --device h100 | weights of 141.11 GB leave nothing for KV of 72.00 GB
            --model llama-3-8b --device h100 --kv-cache-memory-bytes 70g | with weights of 16.06 GB exceeds the 80.00 GB of
            --model llama-3-8b --device h100 --contxt 7 | unknown option --contxt; did you mean --context?
            --device h100 | --model
            """)
    void wrongOptionsAreNamed(String arguments, String message) {
        Run run = run(WITH_BFLOAT16, arguments.split(" "));
        assertEquals(2, run.exitCode(), run.err());
        assertTrue(run.err().contains(message), run.err());
        assertTrue(run.out().isEmpty(), run.out());
    }

    @Test
    void machineThatCannotBeMeasuredIsReportedWithTheRemedy() {
        StringWriter err = new StringWriter();
        PlanCommand command = new PlanCommand(() -> {
            throw new IllegalStateException("the heap of 64 MiB is too small; raise -Xmx");
        });
        assertEquals(2, commandLine(command, new StringWriter(), err).execute("--model", "smollm2-135m"));
        assertTrue(err.toString().contains("option --device = this: the heap of 64 MiB is too small"), err::toString);
        assertTrue(err.toString().contains("--device h100|h200|a100"), err::toString);
    }

    @Test
    void modelDirectoryNeedsNoWeights(@TempDir Path directory) throws IOException {
        Files.copy(Path.of("../models/millrace-tiny/config.json"), directory.resolve("config.json"));
        Run run = run(WITH_BFLOAT16, "--model", directory.toString(), "--device", "a100", "--context", "256");
        assertEquals(0, run.exitCode(), run.err());
        assertTrue(run.out().contains("2,558,400 parameters of 2 bytes"), run.out());
        assertFalse(run.out().contains("note"), run.out());
    }

    private record Run(int exitCode, String out, String err) {}

    private Run run(CpuDeviceProbe.Rates rates, String... arguments) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        PlanCommand command = new PlanCommand(() -> {
            numMeasurements++;
            return rates;
        });
        int exitCode = commandLine(command, out, err).execute(arguments);
        return new Run(exitCode, out.toString(), err.toString());
    }

    private static CommandLine commandLine(PlanCommand command, StringWriter out, StringWriter err) {
        ErrorReport report = new ErrorReport();
        return new CommandLine(command)
                .setParameterExceptionHandler(report)
                .setExecutionExceptionHandler(report)
                .setOut(new PrintWriter(out))
                .setErr(new PrintWriter(err));
    }

    private static String[] with(String[] arguments, String... more) {
        List<String> all = new ArrayList<>(List.of(arguments));
        all.addAll(List.of(more));
        return all.toArray(String[]::new);
    }

    private static CpuDeviceProbe.Rates rates(OptionalDouble bfloat16FlopsPerSecond, boolean keepsBfloat16Weights) {
        return new CpuDeviceProbe.Rates(
                2,
                16_000_000_000L,
                512L << 20,
                40e9,
                15e9,
                bfloat16FlopsPerSecond,
                200e9,
                keepsBfloat16Weights,
                "1024 x 2048 x 2048");
    }
}
