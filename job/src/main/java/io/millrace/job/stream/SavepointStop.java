package io.millrace.job.stream;

import io.millrace.job.cluster.ClusterException;
import io.millrace.job.state.StateException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.JobID;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointFailureReason;
import org.apache.flink.util.ExceptionUtils;

/** Stops the running job of a state directory with a savepoint, from another process, over REST. */
public final class SavepointStop {

    private static final long RETRY_MILLIS = 500;

    private SavepointStop() {}

    /**
     * Takes the savepoint and waits until the job has stopped. A job that is only starting is waited for too.
     *
     * @param stateDirectory of the running job; the savepoint goes there too
     * @return the savepoint's path
     * @throws StateException if no job runs there
     * @throws ClusterException if the savepoint fails; the job then goes on
     */
    public static String stop(Path stateDirectory, Duration timeout) throws InterruptedException {
        Path state = stateDirectory.toAbsolutePath().normalize();
        RunFile run = RunFile.read(state)
                .orElseThrow(() -> new StateException("no job runs with state directory " + state
                        + " (it has no run.json); give the --state of `run`"));
        if (ProcessHandle.of(run.pid()).isEmpty()) {
            throw new StateException("no job runs with state directory " + state + ": process " + run.pid()
                    + " that ran it is gone; the next `run` goes on from its last checkpoint");
        }
        URI rest = URI.create(run.restAddress());
        Configuration configuration = new Configuration();
        configuration.set(RestOptions.ADDRESS, rest.getHost());
        configuration.set(RestOptions.PORT, rest.getPort());
        configuration.set(RestOptions.RETRY_MAX_ATTEMPTS, 3);
        configuration.set(RestOptions.RETRY_DELAY, Duration.ofSeconds(1));
        String directory = state.resolve("savepoints").toUri().toString();
        try (RestClusterClient<String> client = new RestClusterClient<>(configuration, "millrace")) {
            return stop(client, JobID.fromHexString(run.jobId()), directory, timeout);
        } catch (ExecutionException e) {
            throw new ClusterException(
                    "the job at " + run.restAddress() + " was not stopped: " + ClusterException.rootMessage(e)
                            + "; it goes on running",
                    e);
        } catch (TimeoutException e) {
            throw new ClusterException(
                    "the savepoint is not complete after " + timeout.toSeconds() + " s; look at " + run.restAddress(),
                    e);
        } catch (InterruptedException e) {
            throw e;
        } catch (Exception e) {
            throw new ClusterException("no client for " + run.restAddress() + ": " + e.getMessage(), e);
        }
    }

    private static String stop(RestClusterClient<String> client, JobID job, String directory, Duration timeout)
            throws Exception {
        long deadline = System.nanoTime() + timeout.toNanos();
        while (true) {
            try {
                return client.stopWithSavepoint(job, false, directory, SavepointFormatType.NATIVE)
                        .get(Math.max(1, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (ExecutionException e) {
                if (!isStarting(e) || System.nanoTime() > deadline) {
                    throw e;
                }
                Thread.sleep(RETRY_MILLIS);
            }
        }
    }

    /** Flink refuses a savepoint as long as a task is still loading its model or its state. */
    private static boolean isStarting(ExecutionException refusal) {
        return ExceptionUtils.stringifyException(refusal)
                .contains(CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING.message());
    }
}
