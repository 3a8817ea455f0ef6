package io.millrace.connect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.connect.file.JsonlPrompts;
import io.millrace.schemas.PromptEnvelope;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.runtime.testutils.MiniClusterResourceConfiguration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.test.junit5.MiniClusterExtension;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HeldOpenSourceITCase {
    private static final int PARALLELISM = 3;
    private static final int NUM_LINES = 500;

    @RegisterExtension
    static final MiniClusterExtension CLUSTER = new MiniClusterExtension(new MiniClusterResourceConfiguration.Builder()
            .setNumberTaskManagers(1)
            .setNumberSlotsPerTaskManager(PARALLELISM)
            .build());

    @TempDir
    Path directory;

    private JobClient start(String name, boolean exchange, String savepoint) throws Exception {
        StreamExecutionEnvironment environment = Jobs.environment(directory, PARALLELISM, savepoint);
        DataStream<PromptEnvelope> prompts = environment
                .fromSource(
                        new HeldOpenSource<>(JsonlPrompts.source(directory.resolve("in.jsonl"))),
                        WatermarkStrategy.noWatermarks(),
                        "prompts")
                .uid("prompts");
        (exchange ? prompts.rebalance() : prompts)
                .transform("recorder", new AvroTypeInfo<>(PromptEnvelope.class), new Recorder<>(name))
                .uid("recorder")
                .sinkTo(new DiscardingSink<>())
                .uid("sink");
        return environment.executeAsync(name);
    }

    private void writeInput() throws Exception {
        List<String> lines = new ArrayList<>();
        for (int i = 1; i <= NUM_LINES; i++) {
            lines.add("{\"request_id\":\"r" + i + "\",\"prompt\":\"x\"}");
        }
        Files.write(directory.resolve("in.jsonl"), lines);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void everyReaderSignalsItsEndAndWaitsToBeStopped(boolean exchange) throws Exception {
        writeInput();
        Recorder.Notes notes = Recorder.freshNotes("first");
        JobClient job = start("first", exchange, null);
        notes.awaitEnd(PARALLELISM);
        // The end is no reason to finish: further checkpoints pass.
        Thread.sleep(300);
        assertEquals(JobStatus.RUNNING, job.getJobStatus().get(10, TimeUnit.SECONDS));
        String savepoint = Jobs.stop(job, directory);
        assertEquals(
                IntStream.rangeClosed(1, NUM_LINES).mapToObj(i -> "r" + i).collect(Collectors.toSet()), ids(notes));
        assertEquals(NUM_LINES, notes.records.size());
        assertEquals(Set.of(Long.MAX_VALUE), Set.copyOf(notes.watermarks));
        assertEquals(PARALLELISM, notes.watermarks.size());

        Recorder.Notes restored = Recorder.freshNotes("restored");
        JobClient again = start("restored", exchange, savepoint);
        restored.awaitEnd(PARALLELISM);
        Jobs.stop(again, directory);
        assertEquals(0, restored.records.size());
        assertEquals(PARALLELISM, restored.watermarks.size());
    }

    private static Set<String> ids(Recorder.Notes notes) {
        return notes.records.stream()
                .map(r -> ((PromptEnvelope) r).getRequestId())
                .collect(Collectors.toSet());
    }

    @Test
    void onlyBoundedSourcesAreHeldOpen() {
        HeldOpenSource<?, ?, ?> open = new HeldOpenSource<>(JsonlPrompts.source(Path.of("in.jsonl")));
        assertEquals(Boundedness.CONTINUOUS_UNBOUNDED, open.getBoundedness());
        IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> new HeldOpenSource<>(open));
        assertTrue(e.getMessage().contains("stop position"), e.getMessage());
    }
}
