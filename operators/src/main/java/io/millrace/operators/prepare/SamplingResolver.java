package io.millrace.operators.prepare;

import io.millrace.model.GenerationDefaults;
import io.millrace.sampling.InvalidSamplingException;
import io.millrace.sampling.SamplingParams;
import io.millrace.schemas.Sampling;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * Settles every sampling setting of a request: the request's own value, else the command line's, else
 * generation_config.json's, else the built-in. Immutable; any thread.
 */
public final class SamplingResolver {
    /** More samples than this of one request would make its ledger entry outgrow a checkpoint's sense. */
    public static final int MAX_N = 16_384;

    private final Sampling commandLine;
    private final GenerationDefaults modelDefaults;
    private final int maxModelLen;

    public SamplingResolver(Sampling commandLine, GenerationDefaults modelDefaults, int maxModelLen) {
        this.commandLine = commandLine;
        this.modelDefaults = modelDefaults;
        this.maxModelLen = maxModelLen;
    }

    /**
     * Resolves all settings but two, which stay null where nobody gives them: the seed, and max_tokens, whose default is
     * the room that context and KV memory leave, known only to the engine.
     *
     * @throws InvalidSamplingException naming the setting, its value and the limit
     */
    public Sampling resolve(Sampling request, int numPromptTokens) {
        Sampling own = request == null ? new Sampling() : request;
        int room = maxModelLen - numPromptTokens;
        Integer maxTokens = pick(own, Sampling::getMaxTokens, modelDefaults.maxNewTokens(), null);
        if (maxTokens != null && maxTokens < 1) {
            throw new InvalidSamplingException(
                    "max_tokens", maxTokens, "must be at least 1", "leave it out for the remaining context");
        }
        Sampling resolved = new Sampling();
        resolved.setN(pick(own, Sampling::getN, null, 1));
        resolved.setTemperature(pick(own, Sampling::getTemperature, widen(modelDefaults.temperature()), 1.0));
        resolved.setTopP(pick(own, Sampling::getTopP, widen(modelDefaults.topP()), 1.0));
        // vLLM and transformers write "no top_k" as -1 and 0: both are 0 here.
        resolved.setTopK(Math.max(0, topK(pick(own, Sampling::getTopK, modelDefaults.topK(), 0))));
        resolved.setMinP(pick(own, Sampling::getMinP, widen(modelDefaults.minP()), 0.0));
        resolved.setMaxTokens(maxTokens == null ? null : Math.min(maxTokens, Math.max(1, room)));
        resolved.setMinTokens(pick(own, Sampling::getMinTokens, null, 0));
        resolved.setStop(pick(own, Sampling::getStop, null, List.of()));
        resolved.setStopTokenIds(pick(own, Sampling::getStopTokenIds, null, List.of()));
        resolved.setSeed(pick(own, Sampling::getSeed, null, null));
        resolved.setSampleIndex(pick(own, Sampling::getSampleIndex, null, 0));
        resolved.setPresencePenalty(pick(own, Sampling::getPresencePenalty, null, 0.0));
        resolved.setFrequencyPenalty(pick(own, Sampling::getFrequencyPenalty, null, 0.0));
        resolved.setRepetitionPenalty(
                pick(own, Sampling::getRepetitionPenalty, widen(modelDefaults.repetitionPenalty()), 1.0));
        resolved.setLogitBias(pick(own, Sampling::getLogitBias, null, Map.of()));
        resolved.setLogprobs(pick(own, Sampling::getLogprobs, null, null));
        resolved.setPromptLogprobs(pick(own, Sampling::getPromptLogprobs, null, null));
        resolved.setIgnoreEos(pick(own, Sampling::getIgnoreEos, null, false));
        resolved.setSkipSpecialTokens(pick(own, Sampling::getSkipSpecialTokens, null, true));
        resolved.setIncludeStopStrInOutput(pick(own, Sampling::getIncludeStopStrInOutput, null, false));
        check(resolved, maxTokens == null ? room : maxTokens);
        return resolved;
    }

    /** Turns resolved settings into the engine's. */
    public static SamplingParams toParams(Sampling resolved, long seed) {
        Map<Integer, Float> bias = new LinkedHashMap<>();
        resolved.getLogitBias().forEach((id, value) -> bias.put(tokenId(id), value.floatValue()));
        return SamplingParams.builder()
                .n(resolved.getN())
                .temperature(resolved.getTemperature().floatValue())
                .topP(resolved.getTopP().floatValue())
                .topK(resolved.getTopK())
                .minP(resolved.getMinP().floatValue())
                .maxTokens(resolved.getMaxTokens() == null ? Integer.MAX_VALUE : resolved.getMaxTokens())
                .minTokens(resolved.getMinTokens())
                .stop(new ArrayList<>(resolved.getStop()))
                .stopTokenIds(new ArrayList<>(resolved.getStopTokenIds()))
                .seed(seed)
                .sampleIndex(resolved.getSampleIndex())
                .presencePenalty(resolved.getPresencePenalty().floatValue())
                .frequencyPenalty(resolved.getFrequencyPenalty().floatValue())
                .repetitionPenalty(resolved.getRepetitionPenalty().floatValue())
                .logitBias(bias)
                .numLogprobs(resolved.getLogprobs() == null ? -1 : resolved.getLogprobs())
                .numPromptLogprobs(resolved.getPromptLogprobs() == null ? -1 : resolved.getPromptLogprobs())
                .ignoreEos(resolved.getIgnoreEos())
                .skipSpecialTokens(resolved.getSkipSpecialTokens())
                .includeStopStrInOutput(resolved.getIncludeStopStrInOutput())
                .build();
    }

    private static void check(Sampling resolved, int askedMaxTokens) {
        toParams(resolved, 0);
        if (resolved.getN() > MAX_N) {
            throw new InvalidSamplingException(
                    "n", resolved.getN(), "must be at most " + MAX_N, "split the request, using sample_index");
        }
        if (resolved.getMinTokens() > askedMaxTokens) {
            throw new InvalidSamplingException(
                    "min_tokens",
                    resolved.getMinTokens(),
                    "must not exceed max_tokens = " + askedMaxTokens,
                    "lower it or raise max_tokens");
        }
        if ((long) resolved.getSampleIndex() + resolved.getN() > Integer.MAX_VALUE) {
            throw new InvalidSamplingException(
                    "sample_index", resolved.getSampleIndex(), "plus n must stay below 2^31", "lower it");
        }
    }

    private <T> T pick(Sampling request, Function<Sampling, T> setting, T fromModel, T builtIn) {
        T own = setting.apply(request);
        if (own != null) {
            return own;
        }
        T given = setting.apply(commandLine);
        if (given != null) {
            return given;
        }
        return fromModel != null ? fromModel : builtIn;
    }

    private static int topK(int value) {
        if (value < -1) {
            throw new InvalidSamplingException("top_k", value, "must be at least 1", "use 0 or -1 to switch it off");
        }
        return value;
    }

    private static int tokenId(String text) {
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            throw new InvalidSamplingException(
                    "logit_bias", "\"" + text + "\"", "is not a token id", "use decimal token ids as keys");
        }
    }

    private static Double widen(Float value) {
        // By way of text, so that 0.95f stays 0.95 in what is shown.
        return value == null ? null : Double.valueOf(value.toString());
    }
}
