package io.millrace.engine;

import io.millrace.sampling.SamplingParams;
import java.util.List;
import java.util.Objects;

/**
 * A prompt and how to go on from it: n samples that share the prompt's KV.
 *
 * @param id unique among the requests in the engine
 * @param promptTokenIds at least one id; not copied, must not change
 * @param sampling settings of all its samples
 * @param priority lower runs earlier (vLLM's meaning); ties by arrival
 * @param cacheSalt keeps prefix blocks apart from other salts' blocks; empty for none
 * @param resumed samples that had begun before a restore; those absent start fresh
 * @param promptLogprobsNeeded false when sampling asks for prompt log probabilities but they were reported already
 * @param affinityKey the routing key, under which a prefix store keeps what belongs to the request
 */
public record Request(
        String id,
        int[] promptTokenIds,
        SamplingParams sampling,
        int priority,
        String cacheSalt,
        List<ResumedSample> resumed,
        boolean promptLogprobsNeeded,
        long affinityKey) {

    public Request {
        Objects.requireNonNull(id);
        Objects.requireNonNull(sampling);
        Objects.requireNonNull(cacheSalt);
        resumed = List.copyOf(resumed);
        if (promptTokenIds.length == 0) {
            throw new IllegalArgumentException("request " + id + " has an empty prompt");
        }
    }

    public Request(String id, int[] promptTokenIds, SamplingParams sampling) {
        this(id, promptTokenIds, sampling, 0, "", List.of(), sampling.numPromptLogprobs() >= 0, 0);
    }

    /** Without an affinity. */
    public Request(
            String id,
            int[] promptTokenIds,
            SamplingParams sampling,
            int priority,
            String cacheSalt,
            List<ResumedSample> resumed,
            boolean promptLogprobsNeeded) {
        this(id, promptTokenIds, sampling, priority, cacheSalt, resumed, promptLogprobsNeeded, 0);
    }

    /**
     * Progress of one sample before a restore.
     *
     * @param sample the sample's place in the request, 0 … n-1 (not shifted by sample_index)
     * @param tokenIds output tokens generated so far
     * @param finished true if its completion was emitted: the engine must not touch it again
     */
    public record ResumedSample(int sample, int[] tokenIds, boolean finished) {}
}
