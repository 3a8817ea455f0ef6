package io.millrace.operators.inference;

import io.millrace.prefix.TierMiss;
import io.millrace.prefix.TierStats;
import io.millrace.schemas.RequestCounts;
import java.io.Serializable;
import java.util.Map;
import java.util.TreeMap;

/**
 * What the prefix tier did for a subtask or the whole job. The first figure goes on across restarts, the others are of the
 * current start.
 *
 * @param numTierTokens prompt tokens of completed requests whose KV was loaded
 * @param numQueriedTokens prompt tokens asked for in the store
 * @param numHitTokens of these found there
 * @param numLoadedTokens loaded and used
 * @param numComputedTokens computed beside loads, before the pointers met
 * @param numMissedTokens by reason, in its spelling for metrics
 * @param numBytesRead read by the store
 * @param numBytesWritten written by the store
 * @param numBytesStored that it holds
 * @param numChunksStored that it holds
 * @param numChunksEvicted for room, age or since nothing can hit them any more
 * @param numChunksDropped worth storing and not stored: the disk could not keep up, there was no room, or memory was
 *     needed before their turn
 * @param numFailures reads and writes that failed
 * @param readNanos time that the store spent reading
 * @param savedNanos estimated time that computing the loaded tokens would have taken, less the time waited for them
 */
public record TierCounts(
        long numTierTokens,
        long numQueriedTokens,
        long numHitTokens,
        long numLoadedTokens,
        long numComputedTokens,
        Map<String, Long> numMissedTokens,
        long numBytesRead,
        long numBytesWritten,
        long numBytesStored,
        long numChunksStored,
        long numChunksEvicted,
        long numChunksDropped,
        long numFailures,
        long readNanos,
        long savedNanos)
        implements Serializable {
    public static final TierCounts NONE = new TierCounts(0, 0, 0, 0, 0, Map.of(), 0, 0, 0, 0, 0, 0, 0, 0, 0);

    static TierCounts of(RequestCounts counts, TierStats stats) {
        Map<String, Long> missed = new TreeMap<>();
        for (Map.Entry<TierMiss, Long> entry : stats.numMissedTokens().entrySet()) {
            missed.put(entry.getKey().metricName(), entry.getValue());
        }
        return new TierCounts(
                counts.getTierTokens(),
                stats.numQueriedTokens(),
                stats.numHitTokens(),
                stats.numLoadedTokens(),
                stats.numComputedTokens(),
                missed,
                stats.store().numBytesRead(),
                stats.store().numBytesWritten(),
                stats.store().numBytes(),
                stats.store().numChunks(),
                stats.store().numChunksEvicted(),
                stats.numChunksDropped() + stats.store().numChunksDropped(),
                stats.store().numFailures(),
                stats.store().readNanos(),
                stats.savedNanos());
    }

    TierCounts plus(TierCounts other) {
        Map<String, Long> missed = new TreeMap<>(numMissedTokens);
        other.numMissedTokens.forEach((reason, tokens) -> missed.merge(reason, tokens, Long::sum));
        return new TierCounts(
                numTierTokens + other.numTierTokens,
                numQueriedTokens + other.numQueriedTokens,
                numHitTokens + other.numHitTokens,
                numLoadedTokens + other.numLoadedTokens,
                numComputedTokens + other.numComputedTokens,
                missed,
                numBytesRead + other.numBytesRead,
                numBytesWritten + other.numBytesWritten,
                numBytesStored + other.numBytesStored,
                numChunksStored + other.numChunksStored,
                numChunksEvicted + other.numChunksEvicted,
                numChunksDropped + other.numChunksDropped,
                numFailures + other.numFailures,
                readNanos + other.readNanos,
                savedNanos + other.savedNanos);
    }

    /** Whether there is anything to say. */
    public boolean isUsed() {
        return numQueriedTokens > 0 || numBytesStored > 0;
    }
}
