package io.millrace.connect.file;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.millrace.connect.HeldOpenSource;
import io.millrace.connect.Jobs;
import io.millrace.connect.Recorder;
import io.millrace.connect.Results;
import io.millrace.connect.json.JsonFields;
import io.millrace.schemas.Completion;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.testutils.MiniClusterResourceConfiguration;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

class JsonlFilesITCase {
    private static final int PARALLELISM = 2;
    private static final int NUM_LINES = 600;

    @RegisterExtension
    static final MiniClusterExtension CLUSTER = new MiniClusterExtension(new MiniClusterResourceConfiguration.Builder()
            .setNumberTaskManagers(1)
            .setNumberSlotsPerTaskManager(PARALLELISM)
            .build());

    @TempDir
    Path directory;

    /** Every 20th line is bad, every 7th is blank, the others have one to three samples. */
    private static String line(int number) {
        if (number % 7 == 0) {
            return number % 2 == 0 ? "" : "  ";
        }
        if (number % 20 == 0) {
            return "{\"request_id\":\"r" + number + "\",\"promt\":\"x\"}";
        }
        return "{\"request_id\":\"r" + number + "\",\"prompt\":\"x\",\"sampling\":{\"n\":" + (1 + number % 3) + "}}";
    }

    @Test
    void everyResultIsOnceInTheMergedFileDespiteFailures() throws Exception {
        List<String> lines = new ArrayList<>();
        long numErrors = 0;
        long numSamples = 0;
        for (int number = 1; number <= NUM_LINES; number++) {
            lines.add(line(number));
            numErrors += line(number).contains("promt") ? 1 : 0;
            numSamples += line(number).contains("sampling") ? 1 + number % 3 : 0;
        }
        Files.write(directory.resolve("in.jsonl"), lines);

        Path undisturbed = run("undisturbed", 0);
        Path disturbed = run("disturbed", 3);
        JsonlMerge.Result expected = new JsonlMerge.Result(numSamples, numErrors, 0);
        assertEquals(expected, JsonlMerge.merge(undisturbed, directory.resolve("undisturbed.jsonl")));
        assertEquals(expected, JsonlMerge.merge(disturbed, directory.resolve("disturbed.jsonl")));
        assertEquals(-1, Files.mismatch(directory.resolve("undisturbed.jsonl"), directory.resolve("disturbed.jsonl")));
        assertEquals(expected, JsonlMerge.merge(disturbed, directory.resolve("disturbed.jsonl")));
        assertEquals(-1, Files.mismatch(directory.resolve("undisturbed.jsonl"), directory.resolve("disturbed.jsonl")));
    }

    private Path run(String name, int numFailures) throws Exception {
        Path parts = directory.resolve(name + "-parts");
        Results.failTimes(numFailures, 180);
        Recorder.Notes notes = Recorder.freshNotes(name);
        StreamExecutionEnvironment environment = Jobs.environment(directory, PARALLELISM, null);
        SingleOutputStreamOperator<Completion> results = environment
                .fromSource(
                        new HeldOpenSource<>(JsonlPrompts.source(directory.resolve("in.jsonl"))),
                        WatermarkStrategy.noWatermarks(),
                        "prompts")
                .rebalance()
                .process(new Results())
                .returns(Results.COMPLETIONS);
        results.transform("recorder", Results.COMPLETIONS, new Recorder<>(name))
                .sinkTo(JsonlSink.completions(parts, JsonFields.REPRODUCIBLE));
        results.getSideOutput(Results.DEAD_LETTERS).sinkTo(JsonlSink.deadLetters(parts));
        JobClient job = environment.executeAsync(name);
        notes.awaitEnd(PARALLELISM);
        assertEquals(0, Results.numFailuresLeft());
        Jobs.stop(job, directory);
        return parts;
    }
}
