package io.millrace.model;

/**
 * The sampling settings of generation_config.json; null where it gives none. As in vLLM do_sample is not looked at: a
 * request is greedy by temperature 0 only. Unlike vLLM, which drops a value that equals transformers' own default, every
 * value that the file gives counts (a top_k of 50, for one).
 *
 * @param temperature 0 is greedy
 * @param topP in (0, 1]
 * @param topK 0 is off
 * @param minP in [0, 1]
 * @param repetitionPenalty above 0
 * @param maxNewTokens at least 1
 */
public record GenerationDefaults(
        Float temperature, Float topP, Integer topK, Float minP, Float repetitionPenalty, Integer maxNewTokens) {

    /** Of a model without generation_config.json. */
    public static final GenerationDefaults NONE = new GenerationDefaults(null, null, null, null, null, null);

    static GenerationDefaults read(JsonFile json) {
        return new GenerationDefaults(
                number(json, "temperature", 0, 100),
                number(json, "top_p", Float.MIN_VALUE, 1),
                json.has("top_k") ? json.requireInt("top_k", 0) : null,
                number(json, "min_p", 0, 1),
                number(json, "repetition_penalty", Float.MIN_VALUE, 100),
                json.has("max_new_tokens") ? json.requireInt("max_new_tokens", 1) : null);
    }

    private static Float number(JsonFile json, String key, float min, float max) {
        if (!json.has(key)) {
            return null;
        }
        float value = (float) json.requireNumber(key);
        if (!(value >= min && value <= max)) {
            throw json.invalid(
                    key,
                    (min == Float.MIN_VALUE ? "must be above 0" : "must be at least 0") + " and at most " + (long) max);
        }
        return value;
    }
}
