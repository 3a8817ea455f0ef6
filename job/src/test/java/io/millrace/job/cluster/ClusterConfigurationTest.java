package io.millrace.job.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.operators.tier.TierRocksDbOptions;
import java.nio.file.Path;
import java.time.Duration;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.state.rocksdb.RocksDBOptions;
import org.junit.jupiter.api.Test;

class ClusterConfigurationTest {

    private static ClusterOptions options(int parallelism, boolean prefixTierInState) {
        return new ClusterOptions(Path.of("state"), parallelism, Duration.ofSeconds(10), 0, 10, prefixTierInState);
    }

    @Test
    void prefixKvInStateBringsRocksDbOptionsAndMemoryForIt() {
        Configuration with = ClusterConfiguration.cluster(options(2, true));
        Configuration without = ClusterConfiguration.cluster(options(2, false));
        assertEquals("rocksdb", with.get(StateBackendOptions.STATE_BACKEND));
        assertTrue(with.get(CheckpointingOptions.INCREMENTAL_CHECKPOINTS));
        assertEquals(TierRocksDbOptions.class.getName(), with.get(RocksDBOptions.OPTIONS_FACTORY));
        assertNull(without.get(RocksDBOptions.OPTIONS_FACTORY));
        assertEquals(
                2 * (256L << 20),
                with.get(TaskManagerOptions.MANAGED_MEMORY_SIZE).getBytes()
                        - without.get(TaskManagerOptions.MANAGED_MEMORY_SIZE).getBytes());
    }
}
