package io.millrace.operators.inference;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.engine.EngineConfig;
import io.millrace.operators.PipelineOptions;
import io.millrace.schemas.Completion;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The operator inside a running job. The fake device's tokens are a pure function of the request. */
class InferenceOperatorITCase {
    private static final Duration TIMEOUT = Duration.ofMinutes(2);
    private static final String STEP_MILLIS = "millrace.fake.stepMillis";

    /** Completions sized so far, over all restarts in this JVM: where the job is made to fail. */
    private static final AtomicInteger NUM_SIZED = new AtomicInteger();

    @TempDir
    Path directory;

    @AfterEach
    void noEngineThreadIsLeftBehind() throws InterruptedException {
        System.clearProperty(STEP_MILLIS);
        List<String> left = List.of();
        for (int i = 0; i < 50; i++) {
            left = Thread.getAllStackTraces().keySet().stream()
                    .map(Thread::getName)
                    .filter(name -> name.startsWith("millrace-"))
                    .collect(Collectors.toList());
            if (left.isEmpty()) {
                return;
            }
            Thread.sleep(100);
        }
        assertEquals(List.of(), left);
    }

    @Test
    void failuresInMidGenerationLoseAndRepeatNothing() throws Exception {
        List<String> prompts = TestPrompts.random(1, 120, 40, 60);
        Set<String> undisturbed = run("undisturbed", prompts, TestJob.fake(16, 4096), 1);

        System.setProperty(STEP_MILLIS, "5");
        NUM_SIZED.set(0);
        Path place = directory.resolve("failing");
        PipelineOptions options = TestJob.withSizes(
                TestJob.options(place, TestJob.fake(16, 4096), 1),
                Long.MAX_VALUE,
                InferenceOperatorITCase::failNowAndThen);
        try (TestJob job = new TestJob(place, TestPrompts.write(place, prompts), options, Duration.ofMillis(100))) {
            job.start(null);
            JobCounts counts = job.await(TIMEOUT, JobCounts::isFinished);
            assertTrue(counts.numRestoredTokens() > 0, "nothing was in flight at the last restore: " + counts);
            assertEquals(120, counts.numRecordsIn());
            job.stopWithSavepoint();
            assertEquals(undisturbed, job.lines());
        }
    }

    private static long failNowAndThen(Completion completion) {
        int number = NUM_SIZED.incrementAndGet();
        if (number == 20 || number == 70 || number == 120 || number == 160) {
            throw new IllegalStateException("made to fail at completion " + number);
        }
        return TestJob.completionBytes(completion);
    }

    @Test
    void checkpointsCompleteWhileTheEngineIsFullAndInTheTail() throws Exception {
        System.setProperty(STEP_MILLIS, "20");
        Duration interval = Duration.ofMillis(500);
        // Four sequences that go on for minutes, and more records than buffers and engine hold.
        List<String> prompts = new ArrayList<>();
        for (int i = 0; i < 4_000; i++) {
            prompts.add(TestPrompts.line(
                    "r" + i, new int[] {5, 6, 7 + i % 500}, "\"max_tokens\":1500,\"ignore_eos\":true"));
        }
        try (TestJob job = new TestJob(
                directory,
                TestPrompts.write(directory, prompts),
                TestJob.options(directory, TestJob.fake(4, 4 * 2048), 1),
                interval)) {
            job.start(null);
            job.await(TIMEOUT, counts -> counts.numRunningSequences() == 4 && counts.numInFlight() > 8);
            assertCheckpointsComplete(job, interval);
        }
    }

    @Test
    void checkpointsCompleteInTheTailOfABoundedInput() throws Exception {
        System.setProperty(STEP_MILLIS, "20");
        Duration interval = Duration.ofMillis(500);
        List<String> prompts =
                List.of(TestPrompts.line("long", new int[] {5, 6}, "\"max_tokens\":1500,\"ignore_eos\":true"));
        try (TestJob job = new TestJob(
                directory,
                TestPrompts.write(directory, prompts),
                TestJob.options(directory, TestJob.fake(4, 4 * 2048), 1),
                interval)) {
            job.start(null);
            JobCounts counts = job.await(TIMEOUT, c -> c.inputEnded() && c.numRunningSequences() == 1);
            assertFalse(counts.isFinished());
            assertCheckpointsComplete(job, interval);
        }
    }

    /** Three in a row, each within twice the interval of its trigger. */
    private static void assertCheckpointsComplete(TestJob job, Duration interval) throws Exception {
        long before = job.checkpoints().getCounts().getNumberOfCompletedCheckpoints();
        // One may have been triggered before all tasks ran.
        long failedBefore = job.checkpoints().getCounts().getNumberOfFailedCheckpoints();
        long deadline = System.nanoTime() + interval.toNanos() * 20;
        CheckpointStatsSnapshot stats = job.checkpoints();
        while (stats.getCounts().getNumberOfCompletedCheckpoints() < before + 3 && System.nanoTime() < deadline) {
            Thread.sleep(20);
            stats = job.checkpoints();
        }
        assertTrue(
                stats.getCounts().getNumberOfCompletedCheckpoints() >= before + 3,
                "checkpoints starve: " + stats.getCounts());
        long millis = stats.getHistory().getLatestCompletedCheckpoint().getEndToEndDuration();
        assertTrue(millis < 2 * interval.toMillis(), "the last checkpoint took " + millis + " ms");
        assertEquals(failedBefore, stats.getCounts().getNumberOfFailedCheckpoints());
    }

    @Test
    void everyInEdgeOfTheOperatorAllowsUnalignedCheckpoints() throws Exception {
        try (TestJob job = new TestJob(
                directory,
                TestPrompts.write(directory, List.of()),
                TestJob.options(directory, TestJob.fake(4, 256), 1),
                Duration.ofSeconds(1))) {
            StreamGraph graph = job.streamGraph();
            StreamNode inference = graph.getStreamNodes().stream()
                    .filter(node -> "inference".equals(node.getTransformationUID()))
                    .findFirst()
                    .orElseThrow();
            assertFalse(inference.getInEdges().isEmpty());
            for (StreamEdge edge : inference.getInEdges()) {
                assertTrue(edge.supportsUnalignedCheckpoints(), edge.toString());
            }
        }
    }

    @Test
    void aFaultOfOneSequenceIsItsDeadLetterAlone() throws Exception {
        List<String> prompts = TestPrompts.random(2, 30, 20, 20);
        Set<String> clean = run("clean", prompts, TestJob.fake(8, 4096), 1);
        List<String> poisoned = new ArrayList<>(prompts);
        poisoned.add(TestPrompts.line("bad", new int[] {5, 666, 7}, "\"n\":2"));
        Set<String> lines = run("poisoned", poisoned, TestJob.fake(8, 4096), 1);
        assertOneDeadLetter(lines, clean, "engine_fault");
    }

    @Test
    void aRequestThatKillsTheEngineEndsInTheDeadLettersAlone() throws Exception {
        List<String> prompts = TestPrompts.random(3, 30, 20, 20);
        Set<String> clean = run("clean", prompts, TestJob.fake(8, 4096), 1);
        List<String> poisoned = new ArrayList<>(prompts);
        poisoned.add(TestPrompts.line("bad", new int[] {5, 667, 7}, "\"n\":2"));
        Set<String> lines = run("poisoned", poisoned, TestJob.fake(8, 4096), 1);
        assertOneDeadLetter(lines, clean, "poison_request");
    }

    @Test
    void anOutputThatTheSinkCannotTakeFailsItsRequestAsAWhole() throws Exception {
        List<String> prompts = new ArrayList<>();
        prompts.add(TestPrompts.line("small", new int[] {5, 6}, "\"max_tokens\":5,\"ignore_eos\":true"));
        prompts.add(TestPrompts.line("large", new int[] {5, 7}, "\"n\":3,\"max_tokens\":900,\"ignore_eos\":true"));
        PipelineOptions options = TestJob.withSizes(
                TestJob.options(directory, TestJob.fake(8, 4096), 1), 2_000, TestJob::completionBytes);
        try (TestJob job =
                new TestJob(directory, TestPrompts.write(directory, prompts), options, Duration.ofMillis(200))) {
            job.start(null);
            Set<String> lines = job.finish(TIMEOUT);
            assertEquals(2, lines.size(), lines.toString());
            String error = lines.stream()
                    .filter(line -> line.contains("output_too_large"))
                    .findFirst()
                    .orElseThrow();
            assertTrue(error.contains("at most 2000"), error);
            assertTrue(lines.stream().anyMatch(line -> line.contains("\"small\"")));
        }
    }

    @Test
    void withoutMaxTokensASampleEndsWhereTheKvMemoryDoes() throws Exception {
        List<String> prompts = List.of(
                TestPrompts.line("open", new int[] {5, 6}, "\"ignore_eos\":true"),
                TestPrompts.line("asks-too-much", new int[] {5, 6}, "\"ignore_eos\":true,\"max_tokens\":500"));
        Set<String> lines = run("small", prompts, TestJob.fake(4, 256), 1);
        assertEquals(2, lines.size());
        assertTrue(lines.stream().anyMatch(l -> l.contains("\"open\"") && l.contains("\"completion_tokens\":254")));
        assertTrue(lines.stream().anyMatch(l -> l.contains("asks-too-much") && l.contains("kv_cache_too_small")));
    }

    @Test
    void requestsInFlightSurviveRescaling() throws Exception {
        List<String> prompts = TestPrompts.random(4, 80, 40, 120);
        Set<String> undisturbed = run("undisturbed", prompts, TestJob.fake(8, 4096), 1);

        Path place = directory.resolve("rescaled");
        Path input = TestPrompts.write(place, prompts);
        System.setProperty(STEP_MILLIS, "5");
        String savepoint = null;
        int numCompleted = 10;
        for (int parallelism : new int[] {1, 2, 1}) {
            PipelineOptions options = TestJob.options(place, TestJob.fake(8, 4096), parallelism);
            try (TestJob job = new TestJob(place, input, options, Duration.ofMillis(500))) {
                job.start(savepoint);
                if (numCompleted < 50) {
                    int enough = numCompleted;
                    JobCounts counts = job.await(TIMEOUT, c -> c.numCompleted() >= enough);
                    assertTrue(counts.numInFlight() > 0);
                    savepoint = job.stopWithSavepoint();
                    numCompleted += 20;
                } else {
                    JobCounts counts = job.await(TIMEOUT, JobCounts::isFinished);
                    assertTrue(counts.numRestoredTokens() > 0);
                    assertEquals(80, counts.numRecordsIn());
                    job.stopWithSavepoint();
                    assertEquals(undisturbed, job.lines());
                }
            }
        }
    }

    @Test
    void aCheckpointOfAnotherNumericFingerprintIsRefusedAtOnce() throws Exception {
        System.setProperty(STEP_MILLIS, "5");
        Path input = TestPrompts.write(directory, TestPrompts.random(6, 40, 20, 200));
        PipelineOptions options = TestJob.options(directory, TestJob.fake(8, 4096), 1);
        String savepoint;
        try (TestJob job = new TestJob(directory, input, options, Duration.ofMillis(300))) {
            job.start(null);
            job.await(TIMEOUT, counts -> counts.numCompleted() > 2);
            savepoint = job.stopWithSavepoint();
        }
        Path otherModel = Files.createDirectory(directory.resolve("other-model"));
        for (String file : List.of("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")) {
            Files.copy(Path.of(TestJob.MODEL, file), otherModel.resolve(file));
        }
        EngineConfig engine = TestJob.fake(otherModel.toString(), 8, 4096);
        try (TestJob job =
                new TestJob(directory, input, TestJob.options(directory, engine, 1), Duration.ofMillis(300))) {
            job.start(savepoint);
            long started = System.nanoTime();
            AssertionError failure =
                    assertThrows(AssertionError.class, () -> job.await(TIMEOUT, JobCounts::isFinished));
            assertTrue(failure.getMessage().contains("--allow-fingerprint-change"), failure.getMessage());
            assertTrue(System.nanoTime() - started < TIMEOUT.toNanos() / 2, "it was tried again and again");
        }
    }

    @Test
    void queuedPromptsStayOnDiskAndPushBack() throws Exception {
        System.setProperty(STEP_MILLIS, "50");
        int numPrompts = 100_000;
        List<String> prompts = new ArrayList<>(numPrompts);
        for (int i = 0; i < numPrompts; i++) {
            prompts.add(TestPrompts.line("r" + i, new int[] {5, 6, 7}, "\"max_tokens\":2000,\"ignore_eos\":true"));
        }
        EngineConfig engine = TestJob.fake(4, 4 * 2048);
        try (TestJob job = new TestJob(
                directory,
                TestPrompts.write(directory, prompts),
                TestJob.options(directory, engine, 1),
                Duration.ofSeconds(1))) {
            prompts = null;
            job.start(null);
            job.await(TIMEOUT, counts -> counts.numRunningSequences() == 4);
            Thread.sleep(1_000);
            long heapBefore = usedHeapBytes();
            long inFlightBefore = job.await(TIMEOUT, counts -> true).numInFlight();
            Thread.sleep(4_000);
            long inFlightAfter = job.await(TIMEOUT, counts -> true).numInFlight();
            long grownBytes = usedHeapBytes() - heapBefore;
            // A tenth of the interval a record, so ten records a second trickle in.
            assertTrue(inFlightAfter - inFlightBefore <= 80, inFlightBefore + " to " + inFlightAfter);
            assertTrue(inFlightAfter < 300, "in flight: " + inFlightAfter);
            assertTrue(grownBytes < 30L << 20, "the heap grew by " + (grownBytes >> 20) + " MB");
        }
    }

    @Test
    void cancellingAndStoppingCloseCleanly() throws Exception {
        System.setProperty(STEP_MILLIS, "20");
        List<String> prompts = TestPrompts.random(5, 50, 40, 1_000);
        Path input = TestPrompts.write(directory, prompts);
        PipelineOptions options = TestJob.options(directory, TestJob.fake(8, 8192), 2);
        try (TestJob job = new TestJob(directory, input, options, Duration.ofMillis(300))) {
            job.start(null);
            job.await(TIMEOUT, counts -> counts.numRunningSequences() > 4);
            job.cancel();
            noEngineThreadIsLeftBehind();
            System.setProperty(STEP_MILLIS, "20");
            job.start(null);
            job.await(TIMEOUT, counts -> counts.numRunningSequences() > 4);
            String savepoint = job.stopWithSavepoint();
            assertTrue(Files.exists(Path.of(java.net.URI.create(savepoint))), savepoint);
            noEngineThreadIsLeftBehind();
        }
    }

    private static long usedHeapBytes() {
        System.gc();
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    private Set<String> run(String name, List<String> prompts, EngineConfig engine, int parallelism) throws Exception {
        Path place = directory.resolve(name);
        PipelineOptions options = TestJob.options(place, engine, parallelism);
        try (TestJob job = new TestJob(place, TestPrompts.write(place, prompts), options, Duration.ofMillis(200))) {
            job.start(null);
            return job.finish(TIMEOUT);
        }
    }

    private static void assertOneDeadLetter(Set<String> lines, Set<String> clean, String code) {
        List<String> more = lines.stream().filter(line -> !clean.contains(line)).toList();
        assertEquals(1, more.size(), more.toString());
        assertTrue(more.get(0).contains("\"" + code + "\""), more.get(0));
        assertTrue(lines.containsAll(clean), "a good request was hurt");
    }
}
