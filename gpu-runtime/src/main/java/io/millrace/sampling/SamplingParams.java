package io.millrace.sampling;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;

/**
 * How to draw the tokens of a request's samples: vLLM's names, every value resolved (no nulls, no "unset").
 *
 * <p>Order of application, fixed: logit bias, repetition / presence / frequency penalties, temperature, min_p, top_k,
 * top_p (measured after top_k); ties keep the lower token id. Immutable; any thread.
 *
 * @param n samples drawn from one prefill, at least 1
 * @param temperature 0 is greedy
 * @param topP in (0, 1]; 1 is off
 * @param topK 0 is off
 * @param minP in [0, 1]; 0 is off
 * @param maxTokens most output tokens of each sample, at least 1
 * @param minTokens output tokens before which no EOS and no stop ends the sample
 * @param stop texts that end a sample; matched across token borders, trimmed from the text unless included
 * @param stopTokenIds token ids that end a sample
 * @param seed the 64-bit key of the counter-based random numbers
 * @param sampleIndex index of the first sample; sample i of n draws with index sampleIndex + i
 * @param presencePenalty subtracted once from every token that the output holds
 * @param frequencyPenalty subtracted once per occurrence in the output
 * @param repetitionPenalty divides positive and multiplies negative logits of tokens in prompt or output; 1 is off
 * @param logitBias token id to bias, added first
 * @param numLogprobs alternatives reported beside the drawn token; 0 the drawn token's alone, -1 none
 * @param numPromptLogprobs the same for prompt positions; -1 none
 * @param ignoreEos go on past the model's EOS ids
 * @param skipSpecialTokens leave special tokens out of the text
 * @param includeStopStrInOutput keep the stop text at the end of the text
 */
public record SamplingParams(
        int n,
        float temperature,
        float topP,
        int topK,
        float minP,
        int maxTokens,
        int minTokens,
        List<String> stop,
        List<Integer> stopTokenIds,
        long seed,
        int sampleIndex,
        float presencePenalty,
        float frequencyPenalty,
        float repetitionPenalty,
        Map<Integer, Float> logitBias,
        int numLogprobs,
        int numPromptLogprobs,
        boolean ignoreEos,
        boolean skipSpecialTokens,
        boolean includeStopStrInOutput) {

    /** Most alternatives a request may ask for at one position. */
    public static final int MAX_NUM_LOGPROBS = 20;

    public SamplingParams {
        stop = List.copyOf(stop);
        stopTokenIds = List.copyOf(stopTokenIds);
        logitBias = Collections.unmodifiableMap(new TreeMap<>(logitBias));
        atLeast("n", n, 1);
        between("temperature", temperature, 0, 100);
        if (!(topP > 0 && topP <= 1)) {
            throw new InvalidSamplingException(
                    "top_p", topP, "must be above 0 and at most 1", "use 1 to switch it off");
        }
        atLeast("top_k", topK, 0);
        between("min_p", minP, 0, 1);
        atLeast("max_tokens", maxTokens, 1);
        atLeast("min_tokens", minTokens, 0);
        atLeast("sample_index", sampleIndex, 0);
        between("presence_penalty", presencePenalty, -2, 2);
        between("frequency_penalty", frequencyPenalty, -2, 2);
        if (!(repetitionPenalty > 0 && repetitionPenalty <= 100)) {
            throw new InvalidSamplingException(
                    "repetition_penalty",
                    repetitionPenalty,
                    "must be above 0 and at most 100",
                    "use 1 to switch it off");
        }
        between("logprobs", numLogprobs, -1, MAX_NUM_LOGPROBS);
        between("prompt_logprobs", numPromptLogprobs, -1, MAX_NUM_LOGPROBS);
        for (String text : stop) {
            if (text.isEmpty()) {
                throw new InvalidSamplingException("stop", "\"\"", "holds an empty text", "leave it out");
            }
        }
        logitBias.forEach((id, bias) -> {
            Objects.requireNonNull(bias);
            between("logit_bias[" + id + "]", bias, -100, 100);
        });
    }

    /** Temperature 1, one sample, no truncation, 16 tokens: vLLM's built-in values. */
    public static SamplingParams defaults() {
        return builder().build();
    }

    public static Builder builder() {
        return new Builder();
    }

    public Builder toBuilder() {
        Builder builder = new Builder();
        builder.n = n;
        builder.temperature = temperature;
        builder.topP = topP;
        builder.topK = topK;
        builder.minP = minP;
        builder.maxTokens = maxTokens;
        builder.minTokens = minTokens;
        builder.stop = stop;
        builder.stopTokenIds = stopTokenIds;
        builder.seed = seed;
        builder.sampleIndex = sampleIndex;
        builder.presencePenalty = presencePenalty;
        builder.frequencyPenalty = frequencyPenalty;
        builder.repetitionPenalty = repetitionPenalty;
        builder.logitBias = logitBias;
        builder.numLogprobs = numLogprobs;
        builder.numPromptLogprobs = numPromptLogprobs;
        builder.ignoreEos = ignoreEos;
        builder.skipSpecialTokens = skipSpecialTokens;
        builder.includeStopStrInOutput = includeStopStrInOutput;
        return builder;
    }

    public boolean isGreedy() {
        return temperature == 0;
    }

    public boolean hasPenalties() {
        return presencePenalty != 0 || frequencyPenalty != 0 || repetitionPenalty != 1;
    }

    private static void atLeast(String name, int value, int min) {
        if (value < min) {
            throw new InvalidSamplingException(name, value, "must be at least " + min, "raise it or leave it out");
        }
    }

    private static void between(String name, Number value, double min, double max) {
        if (!(value.doubleValue() >= min && value.doubleValue() <= max)) {
            throw new InvalidSamplingException(
                    name,
                    value,
                    "must lie in [" + number(min) + ", " + number(max) + "]",
                    "correct it or leave it out");
        }
    }

    private static String number(double value) {
        return value == Math.rint(value) ? Long.toString((long) value) : Double.toString(value);
    }

    /** Collects settings; {@link #build()} validates. */
    public static final class Builder {
        private int n = 1;
        private float temperature = 1;
        private float topP = 1;
        private int topK;
        private float minP;
        private int maxTokens = 16;
        private int minTokens;
        private List<String> stop = List.of();
        private List<Integer> stopTokenIds = List.of();
        private long seed;
        private int sampleIndex;
        private float presencePenalty;
        private float frequencyPenalty;
        private float repetitionPenalty = 1;
        private Map<Integer, Float> logitBias = Map.of();
        private int numLogprobs = -1;
        private int numPromptLogprobs = -1;
        private boolean ignoreEos;
        private boolean skipSpecialTokens = true;
        private boolean includeStopStrInOutput;

        private Builder() {}

        public Builder n(int value) {
            n = value;
            return this;
        }

        public Builder temperature(float value) {
            temperature = value;
            return this;
        }

        public Builder topP(float value) {
            topP = value;
            return this;
        }

        public Builder topK(int value) {
            topK = value;
            return this;
        }

        public Builder minP(float value) {
            minP = value;
            return this;
        }

        public Builder maxTokens(int value) {
            maxTokens = value;
            return this;
        }

        public Builder minTokens(int value) {
            minTokens = value;
            return this;
        }

        public Builder stop(List<String> value) {
            stop = value;
            return this;
        }

        public Builder stopTokenIds(List<Integer> value) {
            stopTokenIds = value;
            return this;
        }

        public Builder seed(long value) {
            seed = value;
            return this;
        }

        public Builder sampleIndex(int value) {
            sampleIndex = value;
            return this;
        }

        public Builder presencePenalty(float value) {
            presencePenalty = value;
            return this;
        }

        public Builder frequencyPenalty(float value) {
            frequencyPenalty = value;
            return this;
        }

        public Builder repetitionPenalty(float value) {
            repetitionPenalty = value;
            return this;
        }

        public Builder logitBias(Map<Integer, Float> value) {
            logitBias = value;
            return this;
        }

        public Builder numLogprobs(int value) {
            numLogprobs = value;
            return this;
        }

        public Builder numPromptLogprobs(int value) {
            numPromptLogprobs = value;
            return this;
        }

        public Builder ignoreEos(boolean value) {
            ignoreEos = value;
            return this;
        }

        public Builder skipSpecialTokens(boolean value) {
            skipSpecialTokens = value;
            return this;
        }

        public Builder includeStopStrInOutput(boolean value) {
            includeStopStrInOutput = value;
            return this;
        }

        /** @throws InvalidSamplingException naming the setting, its value, the limit and the remedy */
        public SamplingParams build() {
            return new SamplingParams(
                    n,
                    temperature,
                    topP,
                    topK,
                    minP,
                    maxTokens,
                    minTokens,
                    stop,
                    stopTokenIds,
                    seed,
                    sampleIndex,
                    presencePenalty,
                    frequencyPenalty,
                    repetitionPenalty,
                    logitBias,
                    numLogprobs,
                    numPromptLogprobs,
                    ignoreEos,
                    skipSpecialTokens,
                    includeStopStrInOutput);
        }
    }
}
