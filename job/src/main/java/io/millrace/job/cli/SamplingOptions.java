package io.millrace.job.cli;

import io.millrace.sampling.SamplingParams;
import io.millrace.schemas.Sampling;
import java.util.List;
import picocli.CommandLine.Option;

/** Sampling settings for requests that bring none; null where the command line gives none. */
final class SamplingOptions {

    @Option(names = "--n", paramLabel = "N", description = "Samples of each request.")
    Integer n;

    @Option(names = "--temperature", paramLabel = "T", description = "0 is greedy, 1 the model's own distribution.")
    Double temperature;

    @Option(
            names = "--top-p",
            paramLabel = "P",
            description = "Draw from the smallest set of tokens with this probability.")
    Double topP;

    @Option(names = "--top-k", paramLabel = "K", description = "Draw from the K likeliest tokens; 0 is off.")
    Integer topK;

    @Option(
            names = "--min-p",
            paramLabel = "P",
            description = "Leave out tokens less likely than this share of the likeliest.")
    Double minP;

    @Option(
            names = "--max-tokens",
            paramLabel = "TOKENS",
            description = "Most output tokens of a sample. Default: what the context leaves.")
    Integer maxTokens;

    @Option(
            names = "--min-tokens",
            paramLabel = "TOKENS",
            description = "Output tokens before which nothing ends a sample.")
    Integer minTokens;

    @Option(names = "--stop", paramLabel = "TEXT", description = "Text that ends a sample; may be given several times.")
    List<String> stop;

    @Option(names = "--stop-token-ids", paramLabel = "ID", split = ",", description = "Token ids that end a sample.")
    List<Integer> stopTokenIds;

    @Option(
            names = "--presence-penalty",
            paramLabel = "X",
            description = "Against tokens that the output holds already.")
    Double presencePenalty;

    @Option(names = "--frequency-penalty", paramLabel = "X", description = "The same, for every time they occur.")
    Double frequencyPenalty;

    @Option(
            names = "--repetition-penalty",
            paramLabel = "X",
            description = "Against tokens that prompt or output hold; 1 is off.")
    Double repetitionPenalty;

    @Option(
            names = "--logprobs",
            paramLabel = "N",
            description = "Report the drawn token's log probability and those of the N likeliest.")
    Integer logprobs;

    @Option(names = "--ignore-eos", description = "Go on past the model's end-of-text tokens.")
    Boolean ignoreEos;

    /**
     * The settings as defaults below a request's own.
     *
     * @throws io.millrace.sampling.InvalidSamplingException if a value is outside its limits
     */
    Sampling toDefaults() {
        check();
        return Sampling.newBuilder()
                .setN(n)
                .setTemperature(temperature)
                .setTopP(topP)
                .setTopK(topK)
                .setMinP(minP)
                .setMaxTokens(maxTokens)
                .setMinTokens(minTokens)
                .setStop(stop)
                .setStopTokenIds(stopTokenIds)
                .setPresencePenalty(presencePenalty)
                .setFrequencyPenalty(frequencyPenalty)
                .setRepetitionPenalty(repetitionPenalty)
                .setLogprobs(logprobs)
                .setIgnoreEos(ignoreEos)
                .build();
    }

    /** Lets SamplingParams check what is given, against built-in values for the rest. */
    private void check() {
        SamplingParams rest = SamplingParams.defaults();
        new SamplingParams(
                n == null ? rest.n() : n,
                orElse(temperature, rest.temperature()),
                orElse(topP, rest.topP()),
                topK == null ? rest.topK() : topK,
                orElse(minP, rest.minP()),
                maxTokens == null ? rest.maxTokens() : maxTokens,
                minTokens == null ? rest.minTokens() : minTokens,
                stop == null ? rest.stop() : stop,
                stopTokenIds == null ? rest.stopTokenIds() : stopTokenIds,
                rest.seed(),
                rest.sampleIndex(),
                orElse(presencePenalty, rest.presencePenalty()),
                orElse(frequencyPenalty, rest.frequencyPenalty()),
                orElse(repetitionPenalty, rest.repetitionPenalty()),
                rest.logitBias(),
                logprobs == null ? rest.numLogprobs() : logprobs,
                rest.numPromptLogprobs(),
                rest.ignoreEos(),
                rest.skipSpecialTokens(),
                rest.includeStopStrInOutput());
    }

    private static float orElse(Double given, float rest) {
        return given == null ? rest : given.floatValue();
    }
}
