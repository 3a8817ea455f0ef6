package io.millrace.job.cluster;

import io.millrace.engine.InvalidConfigException;
import io.millrace.model.InvalidModelException;
import io.millrace.operators.InferencePipeline;
import io.millrace.operators.inference.JobCounts;
import io.millrace.operators.inference.JobCountsRequest;
import io.millrace.tokenizer.ChatTemplateException;
import io.millrace.tokenizer.InvalidTokenizerException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.SerializedValue;

/**
 * A Flink MiniCluster that runs one job: RocksDB state, incremental and unaligned checkpoints kept on disk, REST and web UI on
 * localhost. Methods may be called from any thread; they block for the cluster's answer.
 */
public final class EmbeddedCluster implements AutoCloseable {

    /** Chains of causes may bite their tails. */
    private static final int MAX_CAUSES = 100;

    private static final Duration ANSWER_TIMEOUT = Duration.ofMinutes(2);

    private final MiniCluster cluster;
    private final String webAddress;
    private final ClusterOptions options;

    private EmbeddedCluster(MiniCluster cluster, String webAddress, ClusterOptions options) {
        this.cluster = cluster;
        this.webAddress = webAddress;
        this.options = options;
    }

    /**
     * Starts the cluster. The state directory's temporary files, which a killed process may have left, are deleted first.
     *
     * @throws ClusterException if it does not start, for example because the web port is taken
     */
    public static EmbeddedCluster start(ClusterOptions options) {
        prepareDirectories(options);
        Configuration configuration = ClusterConfiguration.cluster(options);
        // The inference operator has a slot-sharing group of its own, so a subtask more needs two slots more.
        int numSlots = 2 * options.parallelism();
        configuration.set(TaskManagerOptions.NUM_TASK_SLOTS, numSlots);
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(numSlots)
                .build());
        try {
            cluster.start();
            return new EmbeddedCluster(cluster, cluster.getRestAddress().get().toString(), options);
        } catch (Exception e) {
            cluster.closeAsync();
            throw new ClusterException(
                    "the embedded Flink cluster did not start with the state directory " + options.stateDirectory()
                            + ": "
                            + ClusterException.rootMessage(e)
                            + (options.webPort() == 0 ? "" : "; if the web port is taken, leave --web-port out"),
                    e);
        }
    }

    /** An environment whose settings are the embedded job's; build the topology on it and pass its job graph to submit. */
    public static StreamExecutionEnvironment newEnvironment(ClusterOptions options) {
        return StreamExecutionEnvironment.getExecutionEnvironment(ClusterConfiguration.job(options));
    }

    /** Where REST and the web UI listen. */
    public String webAddress() {
        return webAddress;
    }

    /**
     * Submits the job, from a checkpoint or savepoint where one is given.
     *
     * @return the job's id
     */
    public JobID submit(JobGraph graph, Optional<RestorePoint> from) {
        from.ifPresent(point -> graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(
                point.directory().toUri().toString(), false, RecoveryClaimMode.CLAIM)));
        return await("submitting the job", cluster.submitJob(graph)).getJobID();
    }

    public JobStatus status(JobID job) {
        return await("the job's status", cluster.getJobStatus(job));
    }

    /** The job's counts; empty while it is starting, restarting or over. */
    public Optional<JobCounts> counts(JobID job) {
        try {
            return Optional.of((JobCounts) cluster.deliverCoordinationRequestToCoordinator(
                            job, InferencePipeline.INFERENCE_UID, new SerializedValue<>(new JobCountsRequest()))
                    .get(10, TimeUnit.SECONDS));
        } catch (ExecutionException | TimeoutException e) {
            return Optional.empty();
        } catch (IOException e) {
            throw new IllegalStateException("the request for counts does not serialise", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return Optional.empty();
        }
    }

    /**
     * A fault of the job.
     *
     * @param thrown what was thrown, in Flink's wrappings
     * @param at when it happened, milliseconds since the epoch
     */
    record Fault(Throwable thrown, long at) {}

    /** The fault that made the job restart or fail last; empty where there was none. */
    Optional<Fault> fault(JobID job) {
        return Optional.ofNullable(await("the job's state", cluster.getArchivedExecutionGraph(job))
                        .getFailureInfo())
                .map(info -> new Fault(
                        info.getException().deserializeError(EmbeddedCluster.class.getClassLoader()),
                        info.getTimestamp()));
    }

    /**
     * Takes one checkpoint now and waits until it is complete.
     *
     * @return its id
     * @throws ClusterException if it fails or takes longer than the timeout
     */
    public long checkpoint(JobID job, Duration timeout) {
        return await("a checkpoint", cluster.triggerCheckpoint(job, CheckpointType.CONFIGURED), timeout);
    }

    /**
     * Stops the job with a savepoint; everything emitted before it is committed.
     *
     * @return the savepoint's path
     * @throws ClusterException if it fails; the job then still runs, or has failed
     */
    public String stopWithSavepoint(JobID job, Duration timeout) {
        String target = options.savepointDirectory().toUri().toString();
        return await(
                "stopping with a savepoint",
                cluster.stopWithSavepoint(job, target, false, SavepointFormatType.NATIVE),
                timeout);
    }

    /** Cancels the job and waits until it is over; its checkpoints stay. */
    public void cancel(JobID job) {
        await("cancelling the job", cluster.cancelJob(job));
        await("the end of the job", cluster.requestJobResult(job));
    }

    /** How the job ended; waits for it. */
    public JobResult result(JobID job) {
        return await("the job's result", cluster.requestJobResult(job));
    }

    /**
     * The failure of a job that has ended in one, to be thrown: settings and models that cannot work as what they are, anything
     * else with the advice.
     */
    public RuntimeException failure(JobID job, String advice) {
        Throwable failure = result(job)
                .getSerializedThrowable()
                .map(thrown -> thrown.deserializeError(EmbeddedCluster.class.getClassLoader()))
                .orElseGet(() -> new ClusterException("no cause given"));
        return hopeless(failure)
                .orElseGet(() -> new ClusterException(
                        "the job failed: " + ClusterException.rootMessage(failure) + "; " + advice, failure));
    }

    /**
     * What no restart mends, somewhere in a fault's chain of causes: a setting, a model, a tokenizer or a chat template that
     * cannot work. (A template that refuses one request's messages fails that request and no job.)
     */
    static Optional<RuntimeException> hopeless(Throwable failure) {
        int depth = 0;
        for (Throwable cause = failure; cause != null && depth < MAX_CAUSES; cause = cause.getCause(), depth++) {
            if (cause instanceof InvalidConfigException
                    || cause instanceof InvalidModelException
                    || cause instanceof InvalidTokenizerException
                    || cause instanceof ChatTemplateException) {
                return Optional.of((RuntimeException) cause);
            }
        }
        return Optional.empty();
    }

    @Override
    public void close() {
        try {
            cluster.closeAsync().get(ANSWER_TIMEOUT.toSeconds(), TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException e) {
            throw new ClusterException(
                    "the embedded Flink cluster did not close: " + ClusterException.rootMessage(e), e);
        }
    }

    private static void prepareDirectories(ClusterOptions options) {
        try {
            deleteRecursively(options.temporaryDirectory());
            Files.createDirectories(options.temporaryDirectory());
            Files.createDirectories(options.checkpointDirectory());
            Files.createDirectories(options.savepointDirectory());
        } catch (IOException e) {
            throw new ClusterException(
                    "the state directory " + options.stateDirectory() + " cannot be used: " + e
                            + "; choose another with --state",
                    e);
        }
    }

    /** Deletes a directory and all below it; does nothing where there is none. */
    public static void deleteRecursively(Path directory) throws IOException {
        if (!Files.exists(directory)) {
            return;
        }
        List<Path> paths;
        try (Stream<Path> walk = Files.walk(directory)) {
            paths = walk.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : paths) {
            Files.deleteIfExists(path);
        }
    }

    private <T> T await(String what, CompletableFuture<T> future) {
        return await(what, future, ANSWER_TIMEOUT);
    }

    private <T> T await(String what, CompletableFuture<T> future, Duration timeout) {
        try {
            return future.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new ClusterException(what + " was interrupted", e);
        } catch (ExecutionException e) {
            throw new ClusterException(what + " failed: " + ClusterException.rootMessage(e), e);
        } catch (TimeoutException e) {
            throw new ClusterException(what + " took longer than " + timeout.toSeconds() + " s", e);
        }
    }
}
