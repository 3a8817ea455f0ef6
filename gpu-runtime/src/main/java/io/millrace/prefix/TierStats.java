package io.millrace.prefix;

import java.util.Map;
import java.util.Objects;

/**
 * What the engine's half of a prefix tier did since it was opened. Tokens are those of whole chunks.
 *
 * @param numQueriedTokens asked for in the store: of prefixes that were not in memory
 * @param numHitTokens of these found stored
 * @param numMissedTokens by reason: not found, or found and then not loaded
 * @param numRefusals chunks that came and were not believed, by doubt
 * @param numLoadedTokens loaded and used
 * @param numComputedTokens computed beside loads: in the same prefixes, before the pointers met
 * @param numBytesRead of chunks that the store answered with
 * @param numBytesHandedOver of chunks that the store took to write
 * @param numChunksExported chunks that the store took to write
 * @param numChunksDropped chunks worth storing that had left memory before their turn, or had too many before them; those
 *     that the store does not take are among its own
 * @param loadBytesPerSecond the latest estimate; 0 while unknown
 * @param computeTokensPerSecond the latest estimate of a step of prompt tokens; 0 while unknown
 * @param numPrefixes prefixes whose loads are over: the pointers met, or the rest was computed
 * @param sumComputedShares of these, the computed share of the tokens between memory and the prefix's end
 * @param savedNanos estimated time that computing the loaded tokens would have taken, less the time waited for loads
 * @param numRestores preempted sequences that came back, by kind
 * @param store the store's own counters
 */
public record TierStats(
        long numQueriedTokens,
        long numHitTokens,
        Map<TierMiss, Long> numMissedTokens,
        Map<ChunkDoubt, Long> numRefusals,
        long numLoadedTokens,
        long numComputedTokens,
        long numBytesRead,
        long numBytesHandedOver,
        long numChunksExported,
        long numChunksDropped,
        double loadBytesPerSecond,
        double computeTokensPerSecond,
        long numPrefixes,
        double sumComputedShares,
        long savedNanos,
        Map<Restore, Long> numRestores,
        StoreStats store) {
    public static final TierStats NONE =
            new TierStats(0, 0, Map.of(), Map.of(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, Map.of(), StoreStats.NONE);

    /** How a preempted sequence's KV came back. */
    public enum Restore {
        /** It was still in memory. */
        CACHED,
        /** Computed again. */
        RECOMPUTED,
        /** Loaded, but for what is behind the last whole chunk. */
        LOADED,
        /** Computed from the front and loaded from the back. */
        BOTH
    }

    public TierStats {
        numMissedTokens = Map.copyOf(numMissedTokens);
        numRefusals = Map.copyOf(numRefusals);
        numRestores = Map.copyOf(numRestores);
        Objects.requireNonNull(store);
    }

    /** The same with what the store counts by now. */
    public TierStats withStore(StoreStats now) {
        return new TierStats(
                numQueriedTokens,
                numHitTokens,
                numMissedTokens,
                numRefusals,
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
                numRestores,
                now);
    }

    /** Misses of a reason, in tokens. */
    public long numMissedTokens(TierMiss reason) {
        return numMissedTokens.getOrDefault(reason, 0L);
    }

    /** Preempted sequences that came back in this way. */
    public long numRestores(Restore kind) {
        return numRestores.getOrDefault(kind, 0L);
    }

    /** Where the pointers met on average: 0 if all was loaded, 1 if all was computed. */
    public double meanComputedShare() {
        return numPrefixes == 0 ? 0 : sumComputedShares / numPrefixes;
    }
}
