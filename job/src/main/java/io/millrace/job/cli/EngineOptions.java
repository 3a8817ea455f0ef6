package io.millrace.job.cli;

import io.millrace.backend.Dtype;
import io.millrace.backend.KvCacheDtype;
import io.millrace.engine.EngineConfig;
import io.millrace.engine.SpeculativeConfig;
import io.millrace.sampling.LogprobsMode;
import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.SpeculationMethod;
import java.nio.file.Path;
import picocli.CommandLine.Option;

/** Options that shape the engine, under vLLM's names. */
final class EngineOptions {

    @Option(names = "--device", hidden = true, paramLabel = "NAME", description = "Backend. Default: cpu.")
    String device = "cpu";

    @Option(
            names = "--dtype",
            paramLabel = "TYPE",
            converter = ChoiceConverter.OfDtype.class,
            description =
                    "Number format of compute and KV cache: auto, bfloat16 or float32. auto takes bfloat16 where the"
                            + " CPU multiplies it natively and the model is stored in it, else float32. Default: auto.")
    Dtype dtype = Dtype.AUTO;

    @Option(
            names = "--max-model-len",
            paramLabel = "TOKENS",
            description =
                    "Most tokens of a sequence, prompt and output together. 0 (default) takes the model's own limit.")
    int maxModelLen = 0;

    @Option(
            names = "--max-num-seqs",
            paramLabel = "N",
            description = "Most sequences that are computed together. Default: ${DEFAULT-VALUE}.")
    int maxNumSeqs = EngineConfig.DEFAULT_MAX_NUM_SEQS;

    @Option(
            names = "--max-num-batched-tokens",
            paramLabel = "TOKENS",
            description = "Most tokens of one step: longer prompts are computed in chunks. Default: ${DEFAULT-VALUE}.")
    int maxNumBatchedTokens = EngineConfig.DEFAULT_MAX_NUM_BATCHED_TOKENS;

    @Option(
            names = "--kv-cache-memory-bytes",
            paramLabel = "SIZE",
            converter = ByteSizeConverter.class,
            description =
                    "Memory for keys and values, allocated once. Suffixes k, m, g are powers of 1000; Ki, Mi, Gi of"
                            + " 1024. Default: 1Gi.")
    long kvCacheMemoryBytes = EngineConfig.DEFAULT_KV_CACHE_MEMORY_BYTES;

    @Option(
            names = "--kv-cache-dtype",
            paramLabel = "TYPE",
            converter = ChoiceConverter.OfKvCacheDtype.class,
            description =
                    "Number format of keys and values in memory: auto (that of the computation) or int8, which holds"
                            + " nearly twice the tokens and changes results a little. Default: auto.")
    KvCacheDtype kvCacheDtype = KvCacheDtype.AUTO;

    @Option(
            names = "--no-enable-prefix-caching",
            description = "Do not reuse keys and values of prompts that begin alike. Results are the same either way.")
    boolean noEnablePrefixCaching;

    @Option(
            names = "--block-size",
            paramLabel = "TOKENS",
            description = "Tokens of one KV block. Default: ${DEFAULT-VALUE}.")
    int blockSize = EngineConfig.DEFAULT_BLOCK_SIZE;

    @Option(
            names = "--num-threads",
            paramLabel = "N",
            description = "Compute threads. 0 (default) takes all cores. Results do not depend on it.")
    int numThreads = 0;

    @Option(
            names = "--logprobs-mode",
            paramLabel = "MODE",
            converter = ChoiceConverter.OfLogprobsMode.class,
            description = "What reported log probabilities are of: raw_logprobs, the model's own distribution, or"
                    + " processed_logprobs, the one tokens are drawn from. Default: raw_logprobs.")
    LogprobsMode logprobsMode = LogprobsMode.RAW_LOGPROBS;

    @Option(
            names = "--speculative-method",
            paramLabel = "METHOD",
            converter = ChoiceConverter.OfSpeculationMethod.class,
            description =
                    "Where guesses at the next tokens come from, which one step then verifies together: none, ngram"
                            + " (what followed the same tokens before in the request's own text) or draft_model. Default: none.")
    SpeculationMethod speculativeMethod = SpeculationMethod.NONE;

    @Option(
            names = "--speculative-model",
            paramLabel = "DIR",
            description = "Draft model for --speculative-method draft_model: a smaller one with the same vocabulary.")
    Path speculativeModel;

    @Option(
            names = "--num-speculative-tokens",
            paramLabel = "N",
            description = "Most tokens guessed ahead for each sequence. Default: ${DEFAULT-VALUE}.")
    int numSpeculativeTokens = SpeculativeConfig.DEFAULT_NUM_SPECULATIVE_TOKENS;

    @Option(
            names = "--no-speculative-adaptation",
            description = "Always guess --num-speculative-tokens, also where fewer, or none, would be faster.")
    boolean noSpeculativeAdaptation;

    @Option(
            names = "--prompt-lookup-max",
            paramLabel = "TOKENS",
            description =
                    "Most last tokens that --speculative-method ngram compares. With 1 it does not guess on behind a"
                            + " token that the text did not know, which takes a match of two before it. Default: ${DEFAULT-VALUE}.")
    int promptLookupMax = SpeculativeConfig.DEFAULT_PROMPT_LOOKUP_MAX;

    @Option(
            names = "--prompt-lookup-min",
            paramLabel = "TOKENS",
            description = "Fewest last tokens that must match. Default: ${DEFAULT-VALUE}.")
    int promptLookupMin = SpeculativeConfig.DEFAULT_PROMPT_LOOKUP_MIN;

    @Option(
            names = "--speculative-rule",
            paramLabel = "RULE",
            converter = ChoiceConverter.OfAcceptanceRule.class,
            description =
                    "When a guess is accepted: coupled, if it is the token drawn anyway, so that results are the same"
                            + " to the bit; or accept_resample, which accepts a little more often and has the same distribution,"
                            + " but other results. Default: coupled.")
    AcceptanceRule speculativeRule = AcceptanceRule.COUPLED;

    @Option(
            names = "--seed",
            paramLabel = "NUMBER",
            description = "Mixed with the request id into the seed of requests that bring none of their own."
                    + " Default: ${DEFAULT-VALUE}.")
    long seed = 0;

    /** @throws io.millrace.engine.InvalidConfigException if a value is outside its limits */
    EngineConfig toConfig(Path model) {
        return new EngineConfig(
                        model.toAbsolutePath().normalize().toString(),
                        device,
                        dtype,
                        maxModelLen,
                        maxNumSeqs,
                        maxNumBatchedTokens,
                        kvCacheMemoryBytes,
                        !noEnablePrefixCaching,
                        blockSize,
                        numThreads,
                        logprobsMode,
                        new SpeculativeConfig(
                                speculativeMethod,
                                numSpeculativeTokens,
                                !noSpeculativeAdaptation,
                                promptLookupMax,
                                promptLookupMin,
                                speculativeModel == null
                                        ? ""
                                        : speculativeModel
                                                .toAbsolutePath()
                                                .normalize()
                                                .toString(),
                                speculativeRule))
                .withKvCacheDtype(kvCacheDtype);
    }
}
