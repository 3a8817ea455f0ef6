package io.millrace.bench.scenario;

import io.millrace.operators.tier.DiskPrefixStore;
import io.millrace.operators.tier.DiskStoreOptions;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import java.time.Duration;
import java.util.Map;

/** Stores to measure, and what their chunks weigh. */
final class TierStores {
    private static final long CAPACITY_BYTES = 10_000_000_000L;

    private TierStores() {}

    /** A store on the disk that benches keep their state on; whoever takes it closes it, which deletes its files. */
    static PrefixStore openDisk(BenchSettings settings) {
        String directory = settings.home().resolve("tier-disk").toString();
        return DiskPrefixStore.open(DiskStoreOptions.of(directory, CAPACITY_BYTES, Duration.ZERO));
    }

    /** Bytes of a chunk as stored; all are of one size. */
    static long chunkBytes(Map<ChunkKey, byte[][]> chunks) {
        long sum = 0;
        for (byte[] piece : chunks.values().iterator().next()) {
            sum += piece.length;
        }
        return sum;
    }
}
