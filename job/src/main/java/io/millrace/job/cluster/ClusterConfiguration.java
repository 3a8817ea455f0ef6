package io.millrace.job.cluster;

import io.millrace.operators.tier.TierRocksDbOptions;
import java.time.Duration;
import java.util.List;
import org.apache.flink.api.common.RuntimeExecutionMode;
import org.apache.flink.configuration.BatchExecutionOptions;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.HeartbeatManagerOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.RpcOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.configuration.WebOptions;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.core.execution.RecoveryClaimMode;
import org.apache.flink.state.rocksdb.RocksDBOptions;

/** Flink's settings for the cluster and for the job, from {@link ClusterOptions}. */
final class ClusterConfiguration {

    private static final long MANAGED_BYTES = 192L << 20;
    private static final long TIER_MANAGED_BYTES = 256L << 20;

    private ClusterConfiguration() {}

    /** Settings of JobManager and TaskManager. */
    static Configuration cluster(ClusterOptions options) {
        Configuration configuration = new Configuration();
        configuration.set(RestOptions.ADDRESS, "localhost");
        configuration.set(RestOptions.BIND_ADDRESS, "localhost");
        configuration.set(RestOptions.PORT, options.webPort());
        configuration.set(RestOptions.BIND_PORT, Integer.toString(options.webPort()));
        configuration.set(WebOptions.SUBMIT_ENABLE, false);
        configuration.set(CoreOptions.TMP_DIRS, options.temporaryDirectory().toString());
        configuration.set(CoreOptions.CLASSLOADER_RESOLVE_ORDER, "parent-first");
        // A garbage collection or a long step must not look like a dead TaskManager: both live and die in this one
        // process.
        configuration.set(HeartbeatManagerOptions.HEARTBEAT_TIMEOUT, Duration.ofMinutes(10));
        configuration.set(RpcOptions.ASK_TIMEOUT_DURATION, Duration.ofMinutes(2));
        // Few and small network buffers: what waits in them is what a savepoint has to wait for and a checkpoint has to
        // write.
        configuration.set(TaskManagerOptions.MEMORY_SEGMENT_SIZE, MemorySize.parse("16kb"));
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.parse("24mb"));
        configuration.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.parse("24mb"));
        // Each subtask has its share; of prefix KV mostly what waits to be flushed lies there.
        long tierBytes = options.prefixTierInState() ? options.parallelism() * TIER_MANAGED_BYTES : 0;
        configuration.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, new MemorySize(MANAGED_BYTES + tierBytes));
        configuration.set(TaskManagerOptions.TASK_HEAP_MEMORY, MemorySize.parse("512mb"));
        configuration.addAll(job(options));
        return configuration;
    }

    /** Settings of the job itself: what its stream execution environment is made with. */
    static Configuration job(ClusterOptions options) {
        Configuration configuration = new Configuration();
        configuration.set(ExecutionOptions.RUNTIME_MODE, RuntimeExecutionMode.STREAMING);
        configuration.set(CoreOptions.DEFAULT_PARALLELISM, options.parallelism());
        configuration.set(PipelineOptions.GENERIC_TYPES, false);
        configuration.set(PipelineOptions.AUTO_GENERATE_UIDS, false);
        configuration.set(PipelineOptions.AUTO_WATERMARK_INTERVAL, Duration.ZERO);
        // Records are few: each is sent on at once, and no thread wakes up every so often to do it.
        configuration.set(ExecutionOptions.BUFFER_TIMEOUT, Duration.ZERO);
        configuration.set(BatchExecutionOptions.ADAPTIVE_AUTO_PARALLELISM_ENABLED, false);

        configuration.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        configuration.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        if (options.prefixTierInState()) {
            configuration.set(RocksDBOptions.OPTIONS_FACTORY, TierRocksDbOptions.class.getName());
        }
        configuration.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        configuration.set(
                CheckpointingOptions.CHECKPOINTS_DIRECTORY,
                options.checkpointDirectory().toUri().toString());
        configuration.set(
                CheckpointingOptions.SAVEPOINT_DIRECTORY,
                options.savepointDirectory().toUri().toString());
        configuration.set(CheckpointingOptions.MAX_RETAINED_CHECKPOINTS, 2);
        configuration.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        configuration.set(CheckpointingOptions.CHECKPOINTING_CONSISTENCY_MODE, CheckpointingMode.EXACTLY_ONCE);
        configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, options.checkpointInterval());
        configuration.set(CheckpointingOptions.CHECKPOINTING_TIMEOUT, Duration.ofMinutes(30));
        configuration.set(CheckpointingOptions.ENABLE_UNALIGNED, true);
        configuration.set(CheckpointingOptions.TOLERABLE_FAILURE_NUMBER, 20);
        // The first checkpoint of a start takes over what it restored from, and old state is deleted as it is
        // superseded.
        configuration.set(StateRecoveryOptions.RESTORE_MODE, RecoveryClaimMode.CLAIM);

        if (options.numRestarts() == 0) {
            configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "none");
        } else {
            configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "exponential-delay");
            configuration.set(
                    RestartStrategyOptions.RESTART_STRATEGY_EXPONENTIAL_DELAY_INITIAL_BACKOFF, Duration.ofMillis(500));
            configuration.set(
                    RestartStrategyOptions.RESTART_STRATEGY_EXPONENTIAL_DELAY_MAX_BACKOFF, Duration.ofSeconds(30));
            configuration.set(
                    RestartStrategyOptions.RESTART_STRATEGY_EXPONENTIAL_DELAY_RESET_BACKOFF_THRESHOLD,
                    Duration.ofMinutes(10));
            configuration.set(
                    RestartStrategyOptions.RESTART_STRATEGY_EXPONENTIAL_DELAY_ATTEMPTS, options.numRestarts());
        }
        configuration.set(PipelineOptions.JARS, List.of());
        return configuration;
    }
}
