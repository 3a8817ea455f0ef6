package io.millrace.engine;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvCacheDtype;
import io.millrace.backend.KvFormat;
import io.millrace.prefix.TierConfig;
import io.millrace.sampling.LogprobsMode;
import java.io.Serializable;
import java.util.Objects;

/**
 * Everything that shapes an engine; vLLM's names. Immutable, validated once, serialisable as part of a job graph.
 *
 * @param model path of a Hugging Face model directory
 * @param device backend kind, for example {@code cpu}
 * @param dtype compute and KV dtype
 * @param maxModelLen most tokens of a sequence; 0 takes the model's own limit
 * @param maxNumSeqs most sequences of a step
 * @param maxNumBatchedTokens the step's token budget
 * @param kvCacheMemoryBytes KV memory, allocated once
 * @param enablePrefixCaching reuse KV blocks of equal prefixes across requests
 * @param blockSize tokens per KV block
 * @param numThreads compute threads; 0 means all cores
 * @param logprobsMode which distribution log probabilities are of
 * @param speculative how tokens are proposed before they are drawn, if at all
 * @param tier how KV of prefixes is kept below the block pool; null for no tier
 * @param kvCacheDtype number format of KV in memory
 */
public record EngineConfig(
        String model,
        String device,
        Dtype dtype,
        int maxModelLen,
        int maxNumSeqs,
        int maxNumBatchedTokens,
        long kvCacheMemoryBytes,
        boolean enablePrefixCaching,
        int blockSize,
        int numThreads,
        LogprobsMode logprobsMode,
        SpeculativeConfig speculative,
        TierConfig tier,
        KvCacheDtype kvCacheDtype)
        implements Serializable {

    public static final int DEFAULT_MAX_NUM_SEQS = 256;
    public static final int DEFAULT_MAX_NUM_BATCHED_TOKENS = 2048;
    public static final int DEFAULT_BLOCK_SIZE = 16;
    public static final long DEFAULT_KV_CACHE_MEMORY_BYTES = 1L << 30;

    public EngineConfig {
        Objects.requireNonNull(model);
        Objects.requireNonNull(device);
        Objects.requireNonNull(dtype);
        Objects.requireNonNull(logprobsMode);
        Objects.requireNonNull(speculative);
        Objects.requireNonNull(kvCacheDtype);
        if (maxModelLen < 0) {
            throw new InvalidConfigException(
                    "--max-model-len", maxModelLen, "must be at least 1", "leave it out to take the model's own limit");
        }
        if (maxNumSeqs < 1) {
            throw new InvalidConfigException("--max-num-seqs", maxNumSeqs, "must be at least 1", "try 256");
        }
        if (maxNumBatchedTokens < 1) {
            throw new InvalidConfigException(
                    "--max-num-batched-tokens", maxNumBatchedTokens, "must be at least 1", "try 2048");
        }
        if (kvCacheMemoryBytes < 1) {
            throw new InvalidConfigException(
                    "--kv-cache-memory-bytes", kvCacheMemoryBytes, "must be positive", "try 1g");
        }
        if (blockSize < 1) {
            throw new InvalidConfigException("--block-size", blockSize, "must be at least 1", "use 16");
        }
        if (numThreads < 0) {
            throw new InvalidConfigException(
                    "--num-threads", numThreads, "must not be negative", "use 0 for all cores");
        }
        if (tier != null && tier.chunkTokens() % blockSize != 0) {
            throw new InvalidConfigException(
                    "--block-size",
                    blockSize,
                    "must divide the tier's chunks of " + tier.chunkTokens() + " tokens",
                    "use 16, or chunks of a multiple of it");
        }
        if (tier != null && tier.format() == KvFormat.INT4 && kvCacheDtype == KvCacheDtype.INT8) {
            throw new InvalidConfigException(
                    "--kv-cache-dtype",
                    kvCacheDtype.optionName(),
                    "cannot hold the tier's 4-bit numbers exactly, so that loading and computing would differ",
                    "use auto, or keep KV in the tier as computed");
        }
    }

    /** With KV in memory in the format of the computation. */
    public EngineConfig(
            String model,
            String device,
            Dtype dtype,
            int maxModelLen,
            int maxNumSeqs,
            int maxNumBatchedTokens,
            long kvCacheMemoryBytes,
            boolean enablePrefixCaching,
            int blockSize,
            int numThreads,
            LogprobsMode logprobsMode,
            SpeculativeConfig speculative,
            TierConfig tier) {
        this(
                model,
                device,
                dtype,
                maxModelLen,
                maxNumSeqs,
                maxNumBatchedTokens,
                kvCacheMemoryBytes,
                enablePrefixCaching,
                blockSize,
                numThreads,
                logprobsMode,
                speculative,
                tier,
                KvCacheDtype.AUTO);
    }

    /** Without a tier. */
    public EngineConfig(
            String model,
            String device,
            Dtype dtype,
            int maxModelLen,
            int maxNumSeqs,
            int maxNumBatchedTokens,
            long kvCacheMemoryBytes,
            boolean enablePrefixCaching,
            int blockSize,
            int numThreads,
            LogprobsMode logprobsMode,
            SpeculativeConfig speculative) {
        this(
                model,
                device,
                dtype,
                maxModelLen,
                maxNumSeqs,
                maxNumBatchedTokens,
                kvCacheMemoryBytes,
                enablePrefixCaching,
                blockSize,
                numThreads,
                logprobsMode,
                speculative,
                null);
    }

    /** Without speculation and tier. */
    public EngineConfig(
            String model,
            String device,
            Dtype dtype,
            int maxModelLen,
            int maxNumSeqs,
            int maxNumBatchedTokens,
            long kvCacheMemoryBytes,
            boolean enablePrefixCaching,
            int blockSize,
            int numThreads,
            LogprobsMode logprobsMode) {
        this(
                model,
                device,
                dtype,
                maxModelLen,
                maxNumSeqs,
                maxNumBatchedTokens,
                kvCacheMemoryBytes,
                enablePrefixCaching,
                blockSize,
                numThreads,
                logprobsMode,
                SpeculativeConfig.NONE);
    }

    /** The same with other speculation. */
    public EngineConfig withSpeculative(SpeculativeConfig other) {
        return new EngineConfig(
                model,
                device,
                dtype,
                maxModelLen,
                maxNumSeqs,
                maxNumBatchedTokens,
                kvCacheMemoryBytes,
                enablePrefixCaching,
                blockSize,
                numThreads,
                logprobsMode,
                other,
                tier,
                kvCacheDtype);
    }

    /** The same with another tier; null for none. */
    public EngineConfig withTier(TierConfig other) {
        return new EngineConfig(
                model,
                device,
                dtype,
                maxModelLen,
                maxNumSeqs,
                maxNumBatchedTokens,
                kvCacheMemoryBytes,
                enablePrefixCaching,
                blockSize,
                numThreads,
                logprobsMode,
                speculative,
                other,
                kvCacheDtype);
    }

    /** The same with KV in memory in another format. */
    public EngineConfig withKvCacheDtype(KvCacheDtype other) {
        return new EngineConfig(
                model,
                device,
                dtype,
                maxModelLen,
                maxNumSeqs,
                maxNumBatchedTokens,
                kvCacheMemoryBytes,
                enablePrefixCaching,
                blockSize,
                numThreads,
                logprobsMode,
                speculative,
                tier,
                other);
    }

    /** The default settings for a model on the CPU. */
    public static EngineConfig of(String model) {
        return new EngineConfig(
                model,
                "cpu",
                Dtype.AUTO,
                0,
                DEFAULT_MAX_NUM_SEQS,
                DEFAULT_MAX_NUM_BATCHED_TOKENS,
                DEFAULT_KV_CACHE_MEMORY_BYTES,
                true,
                DEFAULT_BLOCK_SIZE,
                0,
                LogprobsMode.RAW_LOGPROBS);
    }
}
