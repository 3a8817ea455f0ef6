package io.millrace.operators.inference;

import io.millrace.connect.HeldOpenSource;
import io.millrace.connect.file.JsonlMerge;
import io.millrace.connect.file.JsonlPrompts;
import io.millrace.connect.file.JsonlSink;
import io.millrace.connect.json.CompletionJson;
import io.millrace.connect.json.DeadLetterJson;
import io.millrace.connect.json.JsonFields;
import io.millrace.engine.EngineConfig;
import io.millrace.operators.InferencePipeline;
import io.millrace.operators.PipelineOptions;
import io.millrace.operators.tier.TierKind;
import io.millrace.operators.tier.TierOptions;
import io.millrace.operators.tier.TierRocksDbOptions;
import io.millrace.schemas.Completion;
import io.millrace.schemas.PromptEnvelope;
import io.millrace.schemas.Sampling;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.formats.avro.typeutils.AvroTypeInfo;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.runtime.testutils.InMemoryReporter;
import org.apache.flink.state.rocksdb.RocksDBOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.util.ExceptionUtils;
import org.apache.flink.util.SerializedValue;

/** The pipeline between a JSON Lines file and an exactly-once file sink, on a MiniCluster with RocksDB state. */
final class TestJob implements AutoCloseable {
    static final String MODEL =
            Path.of("../models/millrace-tiny").toAbsolutePath().normalize().toString();

    private final Path directory;
    private final Path input;
    private final PipelineOptions options;
    private final Duration checkpointInterval;
    private final String stateBackend;
    private final InMemoryReporter metrics = InMemoryReporter.create();
    private final MiniCluster cluster;
    private JobID job;

    TestJob(Path directory, Path input, PipelineOptions options, Duration checkpointInterval) throws Exception {
        this(directory, input, options, checkpointInterval, "rocksdb");
    }

    /** With state in memory. */
    static TestJob withHeapState(Path directory, Path input, PipelineOptions options, Duration checkpointInterval)
            throws Exception {
        return new TestJob(directory, input, options, checkpointInterval, "hashmap");
    }

    private TestJob(
            Path directory, Path input, PipelineOptions options, Duration checkpointInterval, String stateBackend)
            throws Exception {
        this.directory = directory;
        this.input = input;
        this.options = options;
        this.checkpointInterval = checkpointInterval;
        this.stateBackend = stateBackend;
        this.cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(metrics.addToConfiguration(configuration()))
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(4)
                .build());
        cluster.start();
    }

    /** Options with the crash guard beside the parts and no size limits. */
    static PipelineOptions options(Path directory, EngineConfig engine, int parallelism) {
        return options(directory, engine, TierOptions.NONE, parallelism);
    }

    /** The same with a prefix tier, which the engine must have too. */
    static PipelineOptions options(Path directory, EngineConfig engine, TierOptions tier, int parallelism) {
        return new PipelineOptions(
                engine,
                tier,
                new Sampling(),
                0,
                1,
                parallelism,
                directory.resolve("guard").toUri().toString(),
                false,
                Long.MAX_VALUE,
                TestJob::completionBytes,
                Long.MAX_VALUE,
                letter -> (long) DeadLetterJson.toBytes(letter).length);
    }

    /** The fake device with room for that many sequences; 1 KB of KV a token. */
    static EngineConfig fake(int maxNumSeqs, int kvTokens) {
        return fake(MODEL, maxNumSeqs, kvTokens);
    }

    static EngineConfig fake(String model, int maxNumSeqs, int kvTokens) {
        EngineConfig defaults = EngineConfig.of(model);
        return new EngineConfig(
                model,
                "fake",
                defaults.dtype(),
                0,
                maxNumSeqs,
                512,
                kvTokens * 1024L,
                true,
                16,
                1,
                defaults.logprobsMode());
    }

    static PipelineOptions withSizes(
            PipelineOptions options,
            long maxCompletionBytes,
            org.apache.flink.util.function.SerializableFunction<Completion, Long> completionBytes) {
        return new PipelineOptions(
                options.engine(),
                options.tier(),
                options.samplingDefaults(),
                options.seed(),
                options.prepareParallelism(),
                options.inferenceParallelism(),
                options.crashGuardDirectory(),
                options.allowFingerprintChange(),
                maxCompletionBytes,
                completionBytes,
                options.maxDeadLetterBytes(),
                options.deadLetterBytes());
    }

    static long completionBytes(Completion completion) {
        return CompletionJson.toBytes(completion, JsonFields.REPRODUCIBLE).length;
    }

    void start(String restoreFrom) throws Exception {
        JobGraph graph = streamGraph().getJobGraph();
        if (restoreFrom != null) {
            graph.setSavepointRestoreSettings(
                    SavepointRestoreSettings.forPath(restoreFrom, false, RecoveryClaimMode.NO_CLAIM));
        }
        job = cluster.submitJob(graph).get(1, TimeUnit.MINUTES).getJobID();
    }

    StreamGraph streamGraph() {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration());
        environment.setParallelism(1);
        InferencePipeline.Outputs outputs = InferencePipeline.attach(
                environment.fromSource(
                        new HeldOpenSource<>(JsonlPrompts.source(input)),
                        WatermarkStrategy.noWatermarks(),
                        "prompts",
                        new AvroTypeInfo<>(PromptEnvelope.class)),
                options);
        outputs.completions()
                .sinkTo(JsonlSink.completions(parts(), JsonFields.REPRODUCIBLE))
                .uid("completions")
                .slotSharingGroup("default");
        outputs.deadLetters()
                .sinkTo(JsonlSink.deadLetters(parts()))
                .uid("dead-letters")
                .slotSharingGroup("default");
        return environment.getStreamGraph();
    }

    private Path parts() {
        return directory.resolve("parts");
    }

    JobCounts await(Duration timeout, Predicate<JobCounts> reached) throws Exception {
        long deadline = System.nanoTime() + timeout.toNanos();
        JobCounts last = null;
        while (System.nanoTime() < deadline) {
            JobStatus status = cluster.getJobStatus(job).get();
            if (status == JobStatus.FAILED) {
                Throwable cause = cluster.requestJobResult(job)
                        .get()
                        .getSerializedThrowable()
                        .orElseThrow()
                        .deserializeError(TestJob.class.getClassLoader());
                throw new AssertionError("the job failed: " + ExceptionUtils.stringifyException(cause));
            }
            JobCounts counts = status == JobStatus.RUNNING ? counts() : null;
            if (counts != null && counts.allSubtasksReported()) {
                last = counts;
                if (counts.numRecordsIn() != counts.numCompleted() + counts.numFailed() + counts.numInFlight()) {
                    throw new AssertionError("counts do not add up: " + counts);
                }
                if (reached.test(counts)) {
                    return counts;
                }
            }
            Thread.sleep(20);
        }
        throw new AssertionError("not reached within " + timeout + "; last: " + last);
    }

    /** A whole number that every inference subtask shows under this name. */
    List<Long> bySubtask(String metric) {
        return metrics.findMetrics(job, "inference.*" + metric.replace(".", "\\.") + "$").values().stream()
                .map(found -> ((Number) ((Gauge<?>) found).getValue()).longValue())
                .toList();
    }

    private JobCounts counts() throws Exception {
        try {
            return (JobCounts) cluster.deliverCoordinationRequestToCoordinator(
                            job, InferencePipeline.INFERENCE_UID, new SerializedValue<>(new JobCountsRequest()))
                    .get(10, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            return null; // restarting
        }
    }

    CheckpointStatsSnapshot checkpoints() throws Exception {
        return cluster.getExecutionGraph(job).get().getCheckpointStatsSnapshot();
    }

    String stopWithSavepoint() throws Exception {
        while (!allTasksRun()) {
            Thread.sleep(20); // counts arrive while other tasks still initialise
        }
        return cluster.stopWithSavepoint(
                        job, directory.resolve("savepoints").toUri().toString(), false, SavepointFormatType.NATIVE)
                .get(1, TimeUnit.MINUTES);
    }

    private boolean allTasksRun() throws Exception {
        for (AccessExecutionVertex task : cluster.getExecutionGraph(job).get().getAllExecutionVertices()) {
            if (task.getExecutionState() != ExecutionState.RUNNING) {
                return false;
            }
        }
        return true;
    }

    void cancel() throws Exception {
        cluster.cancelJob(job).get(1, TimeUnit.MINUTES);
        cluster.requestJobResult(job).get(1, TimeUnit.MINUTES);
    }

    /** Waits for all answers, stops, merges; the output's lines as a set. */
    Set<String> finish(Duration timeout) throws Exception {
        await(timeout, JobCounts::isFinished);
        stopWithSavepoint();
        return lines();
    }

    Set<String> lines() throws IOException {
        Path merged = directory.resolve("out.jsonl");
        JsonlMerge.merge(parts(), merged);
        // Where the input lies is part of every line, and differs between the runs that a test compares.
        List<String> lines = Files.readAllLines(merged).stream()
                .map(line -> line.replace(input.toString(), "prompts.jsonl"))
                .toList();
        Set<String> set = new TreeSet<>(lines);
        if (set.size() != lines.size()) {
            throw new AssertionError((lines.size() - set.size()) + " lines occur twice");
        }
        return set;
    }

    @Override
    public void close() {
        cluster.closeAsync().join();
    }

    private Configuration configuration() {
        Configuration configuration = new Configuration();
        configuration.set(RestOptions.BIND_PORT, "0"); // any free one: other clusters may run on this machine
        configuration.set(StateBackendOptions.STATE_BACKEND, stateBackend);
        if (options.tier().kind() == TierKind.STATE) {
            configuration.set(RocksDBOptions.OPTIONS_FACTORY, TierRocksDbOptions.class.getName());
        }
        configuration.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        configuration.set(
                CheckpointingOptions.CHECKPOINTS_DIRECTORY,
                directory.resolve("checkpoints").toUri().toString());
        configuration.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, checkpointInterval);
        configuration.set(CheckpointingOptions.ENABLE_UNALIGNED, true);
        configuration.set(RestOptions.BIND_PORT, "0"); // the default is one port for all, and somebody may have it
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 20);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(50));
        configuration.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.parse("256mb"));
        configuration.set(org.apache.flink.configuration.PipelineOptions.GENERIC_TYPES, false);
        return configuration;
    }
}
