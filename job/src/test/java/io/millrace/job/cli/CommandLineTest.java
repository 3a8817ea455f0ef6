package io.millrace.job.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.Dtype;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.SpeculativeConfig;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.SpeculationMethod;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import picocli.CommandLine;
import picocli.CommandLine.TypeConversionException;

class CommandLineTest {

    @TempDir
    Path directory;

    private final StringWriter err = new StringWriter();

    private int run(String... arguments) {
        CommandLine commandLine = MillraceCommand.newCommandLine();
        PrintWriter writer = new PrintWriter(err, true);
        commandLine.setErr(writer);
        commandLine.getSubcommands().values().forEach(command -> command.setErr(writer));
        return commandLine.execute(arguments);
    }

    @ParameterizedTest
    @CsvSource({
        "--max-num-seq=3, --max-num-seqs",
        "--max_model_len=3, --max-model-len",
        "--temprature=1, --temperature",
        "--moddel=x, --model",
        "--kv-cache-memory=1g, --kv-cache-memory-bytes",
        "--gpu-memory-utilization=0.9, --kv-cache-memory-bytes",
        "--enable-prefix-caching, --no-enable-prefix-caching"
    })
    void anUnknownOptionNamesTheNearestRightOne(String given, String nearest) {
        assertEquals(2, run("batch", given));
        assertTrue(
                err.toString()
                        .contains(
                                "unknown option " + given.replaceFirst("=.*", "") + "; did you mean " + nearest + "?"),
                err::toString);
    }

    @Test
    void wrongValuesNameValueLimitAndRemedy() throws Exception {
        Path input = Files.writeString(directory.resolve("in.jsonl"), "");
        String[] batch = {"batch", "--model=m", "--input=" + input, "--output=" + directory.resolve("out"), ""};
        batch[4] = "--dtype=bf16";
        assertEquals(2, run(batch));
        assertTrue(
                err.toString().contains("'bf16' is not one of auto, bfloat16, float32; did you mean bfloat16?"),
                err::toString);
        batch[4] = "--max-num-seqs=0";
        assertEquals(2, run(batch));
        assertTrue(err.toString().contains("option --max-num-seqs = 0: must be at least 1; try 256"), err::toString);
        batch[4] = "--top-p=1.5";
        assertEquals(2, run(batch));
        assertTrue(err.toString().contains("'top_p' = 1.5 must be above 0 and at most 1; use 1"), err::toString);
        batch[4] = "--checkpoint-interval=10";
        assertEquals(2, run(batch));
        assertTrue(err.toString().contains("write a number and a unit: 500ms, 10s, 5m, 1h"), err::toString);
        batch[4] = "--seed=1";
        assertEquals(1, run(batch), "no such model is no wrong command line");
        assertTrue(err.toString().contains("m is no directory"), err::toString);
    }

    @Test
    void tierOptionsThatCannotBeOrHaveNoEffectAreRefused() throws Exception {
        Path input = Files.writeString(directory.resolve("in.jsonl"), "");
        List<String> batch = List.of("batch", "--model=m", "--input=" + input, "--output=" + directory.resolve("out"));
        refused(batch, List.of("--tier=rocksdb"), "'rocksdb' is not one of none, state, disk");
        refused(
                batch,
                List.of("--tier=state", "--tier-capacity-bytes=10"),
                "--tier-capacity-bytes = 10: must be at least 1048576; try 10g");
        refused(
                batch,
                List.of("--tier=state", "--tier-directory=d"),
                "is only for --tier disk, and this is --tier state; leave it out");
        refused(batch, List.of("--tier-ttl=1h"), "--tier-ttl = PT1H: has no effect without a tier; add --tier state");
        refused(batch, List.of("--tier=state", "--tier-kv-dtype=int7"), "did you mean int");
        refused(batch, List.of("--tier=state", "--block-size=48"), "must divide the tier's chunks of 128 tokens");
    }

    private void refused(List<String> command, List<String> options, String message) {
        List<String> arguments = new ArrayList<>(command);
        arguments.addAll(options);
        assertEquals(2, run(arguments.toArray(String[]::new)), () -> arguments + ": " + err);
        assertTrue(err.toString().contains(message), () -> arguments + ": " + err);
        err.getBuffer().setLength(0);
    }

    @Test
    void placesThatCannotBeWrittenAreRefusedBeforeTheWork() throws Exception {
        Path input = Files.writeString(directory.resolve("in.jsonl"), "");
        String good = directory.resolve("out").toString();
        for (String place : List.of(directory.toString(), "/dev/null", input + "/out")) {
            assertEquals(2, run("batch", "--model=m", "--input=" + input, "--output=" + place), place);
            assertTrue(err.toString().contains("option --output = " + place), err::toString);
            assertEquals(2, run("batch", "--model=m", "--input=" + input, "--output=" + good, "--summary=" + place));
            assertTrue(err.toString().contains("option --summary = " + place), err::toString);
        }
    }

    @Test
    void anUnknownCommandNamesTheNearestOne() {
        assertEquals(2, run("bacth"));
        assertTrue(err.toString().contains("did you mean batch?"), err::toString);
        assertEquals(2, run());
        assertTrue(err.toString().contains("a command is missing"), err::toString);
    }

    @Test
    void helpOfEveryCommandHasAnExample() {
        for (CommandLine command :
                MillraceCommand.newCommandLine().getSubcommands().values()) {
            assertTrue(
                    command.getUsageMessage().contains("./millrace " + command.getCommandName()),
                    command::getUsageMessage);
        }
    }

    @Test
    void engineOptionsCarryTheDefaultsOfTheEngine() {
        assertEquals(
                EngineConfig.of(Path.of("m").toAbsolutePath().toString()), new EngineOptions().toConfig(Path.of("m")));
        BatchCommand batch = new BatchCommand();
        new CommandLine(batch).parseArgs("--model=m", "--input=i", "--output=o", "--dtype=float32");
        assertEquals(Dtype.FLOAT32, batch.engine.dtype);
        assertEquals(
                EngineConfig.DEFAULT_MAX_NUM_SEQS, batch.engine.maxNumSeqs, "one option given leaves the others alone");
        assertEquals(Duration.ofSeconds(10), batch.job.checkpointInterval);
        assertEquals(null, batch.sampling.toDefaults().getTemperature());
    }

    @Test
    void speculationIsChosenByName() {
        BatchCommand batch = new BatchCommand();
        new CommandLine(batch)
                .parseArgs(
                        "--model=m",
                        "--input=i",
                        "--output=o",
                        "--speculative-method=draft_model",
                        "--speculative-model=d",
                        "--num-speculative-tokens=3",
                        "--speculative-rule=accept_resample",
                        "--no-speculative-adaptation");
        assertEquals(
                new SpeculativeConfig(
                        SpeculationMethod.DRAFT_MODEL,
                        3,
                        false,
                        SpeculativeConfig.DEFAULT_PROMPT_LOOKUP_MAX,
                        SpeculativeConfig.DEFAULT_PROMPT_LOOKUP_MIN,
                        Path.of("d").toAbsolutePath().toString(),
                        AcceptanceRule.ACCEPT_RESAMPLE),
                batch.engine.toConfig(Path.of("m")).speculative());
    }

    @ParameterizedTest
    @CsvSource({
        "7, 7",
        "2k, 2000",
        "2g, 2000000000",
        "1.5g, 1500000000",
        "2Gi, 2147483648",
        "512Mi, 536870912",
        "1K, 1024"
    })
    void bytesHaveSuffixes(String text, long expected) {
        assertEquals(expected, new ByteSizeConverter().convert(text));
    }

    @Test
    void whatIsNoSizeOrDurationIsRefused() {
        for (String text : List.of("", "g", "-1", "2gg", "9999999999999t", "1 g")) {
            assertThrows(TypeConversionException.class, () -> new ByteSizeConverter().convert(text), text);
        }
        for (String text : List.of("", "s", "10", "1.5s", "3 days")) {
            assertThrows(TypeConversionException.class, () -> new DurationConverter().convert(text), text);
        }
        assertEquals(Duration.ofMillis(500), new DurationConverter().convert("500ms"));
        assertEquals(Duration.ofMinutes(5), new DurationConverter().convert("5m"));
    }

    @Test
    void nothingIsSuggestedForWhatResemblesNothing() {
        assertEquals(Optional.empty(), NearestName.of("--xyzzy", List.of("--model", "--seed")));
        assertEquals(3, NearestName.distance("kitten", "sitting"));
    }
}
