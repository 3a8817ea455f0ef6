package io.millrace.operators.routing;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;

/**
 * Chooses routing keys: hash(leading chunk of the prompt, replica). Replica 0 serves a prefix until the prefix alone brings
 * more than a subtask's fair share of recent tokens; then each of its requests goes to the subtask that this router has
 * given the least, by the replica number whose key lands there. Counts decay by halves, so "recent" means the last few
 * thousand requests. One instance per prepare subtask; its thread only.
 */
public final class PrefixRouter {
    /** Tokens of the leading chunk: the prefix tier's chunk. */
    public static final int LEADING_CHUNK_TOKENS = 128;

    /** Prefixes remembered; the least recently seen are forgotten, and begin again as cold. */
    private static final int MAX_PREFIXES = 16_384;

    /** Requests after which all counts are halved. */
    private static final int DECAY_REQUESTS = 2_048;

    private static final int MAX_REPLICA_TRIES = 64;

    private final int parallelism;
    private final int maxParallelism;
    private final long[] tokensBySubtask;
    private final Map<Long, long[]> tokensByPrefix = new LinkedHashMap<>(64, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, long[]> eldest) {
            return size() > MAX_PREFIXES;
        }
    };
    private long totalTokens;
    private int requestsUntilDecay = DECAY_REQUESTS;

    /**
     * @param parallelism inference subtasks
     * @param maxParallelism key groups of the inference operator
     */
    public PrefixRouter(int parallelism, int maxParallelism) {
        this.parallelism = parallelism;
        this.maxParallelism = maxParallelism;
        this.tokensBySubtask = new long[parallelism];
    }

    /** The key of the next request; counts it. */
    public long route(int[] promptTokenIds, int numSamples, String cacheSalt) {
        long prefix = hashLeadingChunk(promptTokenIds, cacheSalt);
        // What a request costs its subtask: its prompt once, and every sample something.
        long cost = promptTokenIds.length + 32L * numSamples;
        long[] prefixTokens = tokensByPrefix.computeIfAbsent(prefix, unused -> new long[1]);
        boolean hot = parallelism > 1 && prefixTokens[0] * parallelism > totalTokens + cost;
        long key = hot ? keyOnLeastLoaded(prefix) : key(prefix, 0);
        prefixTokens[0] += cost;
        totalTokens += cost;
        tokensBySubtask[subtask(key)] += cost;
        decay();
        return key;
    }

    int subtask(long key) {
        return KeyGroupRangeAssignment.assignKeyToParallelOperator(key, maxParallelism, parallelism);
    }

    private long keyOnLeastLoaded(long prefix) {
        int least = 0;
        for (int i = 1; i < parallelism; i++) {
            if (tokensBySubtask[i] < tokensBySubtask[least]) {
                least = i;
            }
        }
        for (int replica = 0; replica < MAX_REPLICA_TRIES * parallelism; replica++) {
            long key = key(prefix, replica);
            if (subtask(key) == least) {
                return key;
            }
        }
        return key(prefix, 0);
    }

    private void decay() {
        if (--requestsUntilDecay > 0) {
            return;
        }
        requestsUntilDecay = DECAY_REQUESTS;
        totalTokens = 0;
        for (long[] tokens : tokensByPrefix.values()) {
            tokens[0] /= 2;
            totalTokens += tokens[0];
        }
        for (int i = 0; i < parallelism; i++) {
            tokensBySubtask[i] /= 2;
        }
    }

    private static long key(long prefix, int replica) {
        return mix(prefix + 0x9E3779B97F4A7C15L * replica);
    }

    private static long hashLeadingChunk(int[] tokenIds, String cacheSalt) {
        long hash = mix(cacheSalt == null ? 0 : cacheSalt.hashCode());
        int length = Math.min(tokenIds.length, LEADING_CHUNK_TOKENS);
        for (int i = 0; i < length; i++) {
            hash = mix(hash ^ tokenIds[i]) + i;
        }
        return hash;
    }

    /** The finaliser of SplitMix64 (Steele, Lea and Flood 2014). */
    private static long mix(long z) {
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }
}
