package io.millrace.connect;

import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** Environments and stops of the test jobs. */
public final class Jobs {
    private Jobs() {}

    /** A job that checkpoints often and restarts at once; from a savepoint unless that is null. */
    public static StreamExecutionEnvironment environment(Path directory, int parallelism, String savepoint) {
        Configuration configuration = new Configuration();
        configuration.set(PipelineOptions.GENERIC_TYPES, false);
        configuration.set(
                CheckpointingOptions.CHECKPOINTS_DIRECTORY,
                directory.resolve("checkpoints").toUri().toString());
        configuration.set(CheckpointingOptions.ENABLE_UNALIGNED, true);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 5);
        configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, java.time.Duration.ofMillis(10));
        if (savepoint != null) {
            configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, savepoint);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(parallelism);
        environment.enableCheckpointing(50);
        return environment;
    }

    /** Takes a savepoint, of which tasks are not told that it is complete, and cancels. */
    public static String savepointAndCancel(JobClient job, Path directory) throws Exception {
        String savepoint = job.triggerSavepoint(
                        directory.resolve("savepoints").toUri().toString(), SavepointFormatType.NATIVE)
                .get(60, TimeUnit.SECONDS);
        job.cancel().get(60, TimeUnit.SECONDS);
        while (!job.getJobStatus().get(10, TimeUnit.SECONDS).isGloballyTerminalState()) {
            Thread.sleep(10);
        }
        return savepoint;
    }

    /** Stops with a savepoint, waits until the job is finished, and returns the savepoint's path. */
    public static String stop(JobClient job, Path directory) throws Exception {
        String savepoint = job.stopWithSavepoint(
                        false, directory.resolve("savepoints").toUri().toString(), SavepointFormatType.NATIVE)
                .get(60, TimeUnit.SECONDS);
        job.getJobExecutionResult().get(60, TimeUnit.SECONDS);
        if (job.getJobStatus().get(10, TimeUnit.SECONDS) != JobStatus.FINISHED) {
            throw new AssertionError("the job did not finish");
        }
        return savepoint;
    }
}
