package io.millrace.backend;

import io.millrace.model.ModelDirectory;
import io.millrace.sampling.LogprobsMode;

/**
 * What a backend needs to open a model.
 *
 * @param model the opened model directory
 * @param dtype compute and KV dtype; AUTO lets the backend choose by the device and the checkpoint
 * @param blockSize tokens per KV block
 * @param kvCacheMemoryBytes KV memory, allocated once at opening
 * @param maxNumBatchedTokens most tokens of a step
 * @param maxNumSeqs most sequences of a step
 * @param maxModelLen most tokens of a sequence
 * @param numThreads compute threads; 0 means all cores
 * @param logprobsMode which distribution log probabilities are of
 * @param kvCacheDtype number format of KV in memory
 */
public record BackendConfig(
        ModelDirectory model,
        Dtype dtype,
        int blockSize,
        long kvCacheMemoryBytes,
        int maxNumBatchedTokens,
        int maxNumSeqs,
        int maxModelLen,
        int numThreads,
        LogprobsMode logprobsMode,
        KvCacheDtype kvCacheDtype) {

    /** With KV in the format of the computation. */
    public BackendConfig(
            ModelDirectory model,
            Dtype dtype,
            int blockSize,
            long kvCacheMemoryBytes,
            int maxNumBatchedTokens,
            int maxNumSeqs,
            int maxModelLen,
            int numThreads,
            LogprobsMode logprobsMode) {
        this(
                model,
                dtype,
                blockSize,
                kvCacheMemoryBytes,
                maxNumBatchedTokens,
                maxNumSeqs,
                maxModelLen,
                numThreads,
                logprobsMode,
                KvCacheDtype.AUTO);
    }
}
