package io.millrace.bench.scenario;

import io.millrace.operators.tier.DiskPrefixStore;
import io.millrace.operators.tier.DiskStoreOptions;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.StoreStats;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Stores to measure, and what their chunks weigh. */
final class TierStores {
    private static final long CAPACITY_BYTES = 10_000_000_000L;
    private static final long POLL_NANOS = 5_000_000;
    private static final long MAX_WAIT_SECONDS = 60;

    private TierStores() {}

    /**
     * A store on the disk that benches keep their state on; whoever takes it closes it. All that are open at a time are one
     * database, which begins empty and is deleted with the last.
     */
    static PrefixStore openDisk(BenchSettings settings) {
        String directory = settings.home().resolve("tier-disk").toString();
        return DiskPrefixStore.open(DiskStoreOptions.of(directory, CAPACITY_BYTES, Duration.ZERO));
    }

    /**
     * Waits until a store has written what engines have handed it; returns the bytes of a chunk. All are of one size.
     *
     * @param numChunks that it was to hold
     */
    static double awaitChunks(PrefixStore store, int numChunks) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(MAX_WAIT_SECONDS);
        StoreStats stats;
        while ((stats = store.stats()).numChunks() < numChunks) {
            if (System.nanoTime() - deadline > 0) {
                throw new IllegalStateException("of " + numChunks + " chunks that the engine computed the store holds "
                        + stats.numChunks() + " after " + MAX_WAIT_SECONDS + " s: " + stats);
            }
            LockSupport.parkNanos(POLL_NANOS);
        }
        return (double) stats.numBytes() / stats.numChunks();
    }
}
