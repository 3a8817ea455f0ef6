package io.millrace.prefix;

import io.millrace.prefix.TierStats.Restore;
import java.util.EnumMap;
import java.util.Map;

/** Counters of the tier. Engine thread only. */
final class TierCounts {
    long numQueriedTokens;
    long numHitTokens;
    long numLoadedTokens;
    long numComputedTokens;
    long numBytesHandedOver;
    long numChunksExported;
    long numChunksDropped;
    long numPrefixes;
    double sumComputedShares;
    long savedNanos;
    private final Map<TierMiss, Long> misses = new EnumMap<>(TierMiss.class);
    private final Map<ChunkDoubt, Long> refusals = new EnumMap<>(ChunkDoubt.class);
    private final Map<Restore, Long> restores = new EnumMap<>(Restore.class);

    void missed(TierMiss reason, long numTokens) {
        if (numTokens > 0) {
            misses.merge(reason, numTokens, Long::sum);
        }
    }

    void refused(ChunkDoubt doubt) {
        refusals.merge(doubt, 1L, Long::sum);
    }

    void restored(Restore kind) {
        restores.merge(kind, 1L, Long::sum);
    }

    TierStats stats(long numBytesRead, double loadBytesPerSecond, double computeTokensPerSecond, StoreStats store) {
        return new TierStats(
                numQueriedTokens,
                numHitTokens,
                misses,
                refusals,
                numLoadedTokens,
                numComputedTokens,
                numBytesRead,
                numBytesHandedOver,
                numChunksExported,
                numChunksDropped,
                loadBytesPerSecond,
                computeTokensPerSecond,
                numPrefixes,
                sumComputedShares,
                savedNanos,
                restores,
                store);
    }
}
