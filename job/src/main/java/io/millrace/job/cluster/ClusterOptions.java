package io.millrace.job.cluster;

import io.millrace.engine.InvalidConfigException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Objects;

/**
 * What an embedded cluster is made of.
 *
 * @param stateDirectory holds checkpoints, savepoints and temporary files; one cluster at a time
 * @param parallelism inference subtasks
 * @param checkpointInterval time from the start of one checkpoint to the start of the next
 * @param webPort port of REST and the web UI; 0 takes a free one
 * @param numRestarts job restarts in a row before the job is given up
 * @param prefixTierInState whether state holds prefix KV: values of a megabyte, gigabytes of them
 */
public record ClusterOptions(
        Path stateDirectory,
        int parallelism,
        Duration checkpointInterval,
        int webPort,
        int numRestarts,
        boolean prefixTierInState) {

    public static final int DEFAULT_NUM_RESTARTS = 10;
    private static final Duration MIN_CHECKPOINT_INTERVAL = Duration.ofMillis(10);

    public ClusterOptions {
        Objects.requireNonNull(stateDirectory);
        Objects.requireNonNull(checkpointInterval);
        stateDirectory = stateDirectory.toAbsolutePath().normalize();
        if (parallelism < 1) {
            throw new InvalidConfigException("--parallelism", parallelism, "must be at least 1", "leave it out for 1");
        }
        if (checkpointInterval.compareTo(MIN_CHECKPOINT_INTERVAL) < 0) {
            throw new InvalidConfigException(
                    "--checkpoint-interval", checkpointInterval, "must be at least 10ms", "try 10s");
        }
        if (webPort < 0 || webPort > 65535) {
            throw new InvalidConfigException(
                    "--web-port", webPort, "must be between 0 and 65535", "use 0 for a free one");
        }
        if (numRestarts < 0) {
            throw new InvalidConfigException(
                    "--restarts", numRestarts, "must not be negative", "use 0 to fail at the first fault");
        }
    }

    /** Without prefix KV in state. */
    public ClusterOptions(
            Path stateDirectory, int parallelism, Duration checkpointInterval, int webPort, int numRestarts) {
        this(stateDirectory, parallelism, checkpointInterval, webPort, numRestarts, false);
    }

    public Path checkpointDirectory() {
        return stateDirectory.resolve("checkpoints");
    }

    public Path savepointDirectory() {
        return stateDirectory.resolve("savepoints");
    }

    /** RocksDB's working files and Flink's other temporary ones; of no use to a later start. */
    public Path temporaryDirectory() {
        return stateDirectory.resolve("tmp");
    }
}
