package io.millrace.job.cli;

import io.millrace.job.cluster.ClusterOptions;
import io.millrace.operators.tier.TierKind;
import java.nio.file.Path;
import java.time.Duration;
import picocli.CommandLine.Option;

/** Options of the Flink job and the cluster it runs on. */
final class JobOptions {

    @Option(
            names = "--parallelism",
            paramLabel = "N",
            description =
                    "Inference subtasks. They share the weights and the cores, so 1 (default) is best in one process.")
    int parallelism = 1;

    @Option(
            names = "--checkpoint-interval",
            paramLabel = "TIME",
            converter = DurationConverter.class,
            description = "Time between checkpoints, for example 500ms, 10s, 5m. Default: 10s.")
    Duration checkpointInterval = Duration.ofSeconds(10);

    @Option(
            names = "--restarts",
            paramLabel = "N",
            description = "Restarts of the job after faults in a row before it is given up. Default: ${DEFAULT-VALUE}.")
    int numRestarts = ClusterOptions.DEFAULT_NUM_RESTARTS;

    @Option(
            names = "--web-port",
            paramLabel = "PORT",
            description = "Port of Flink's web UI and REST. 0 (default) takes a free one.")
    int webPort = 0;

    /** @throws io.millrace.engine.InvalidConfigException if a value is outside its limits */
    ClusterOptions toClusterOptions(Path stateDirectory, TierKind tier) {
        return new ClusterOptions(
                stateDirectory, parallelism, checkpointInterval, webPort, numRestarts, tier == TierKind.STATE);
    }
}
