package io.millrace.engine;

import io.millrace.speculation.AcceptanceRule;
import io.millrace.speculation.SpeculationMethod;
import java.io.Serializable;
import java.util.Objects;

/**
 * Whether and how tokens are proposed before the model draws them; vLLM's names. Immutable, validated once.
 *
 * @param method where proposals come from
 * @param numSpeculativeTokens γ: most proposals of a sequence in a step
 * @param adaptive whether to propose fewer, or none, where that is faster
 * @param promptLookupMax most last tokens that a lookup compares
 * @param promptLookupMin fewest last tokens that must match
 * @param model path of the draft model's directory; empty for other methods
 * @param rule when a proposal is accepted
 */
public record SpeculativeConfig(
        SpeculationMethod method,
        int numSpeculativeTokens,
        boolean adaptive,
        int promptLookupMax,
        int promptLookupMin,
        String model,
        AcceptanceRule rule)
        implements Serializable {

    public static final int DEFAULT_NUM_SPECULATIVE_TOKENS = 5;
    public static final int DEFAULT_PROMPT_LOOKUP_MAX = 4;
    public static final int DEFAULT_PROMPT_LOOKUP_MIN = 1;

    /** Every token is drawn in a step of its own. */
    public static final SpeculativeConfig NONE = of(SpeculationMethod.NONE, "");

    private static final int MAX_NUM_SPECULATIVE_TOKENS = 64;

    public SpeculativeConfig {
        Objects.requireNonNull(method);
        Objects.requireNonNull(model);
        Objects.requireNonNull(rule);
        if (numSpeculativeTokens < 1 || numSpeculativeTokens > MAX_NUM_SPECULATIVE_TOKENS) {
            throw new InvalidConfigException(
                    "--num-speculative-tokens",
                    numSpeculativeTokens,
                    "must lie in 1 … " + MAX_NUM_SPECULATIVE_TOKENS,
                    "try " + DEFAULT_NUM_SPECULATIVE_TOKENS);
        }
        if (promptLookupMin < 1) {
            throw new InvalidConfigException(
                    "--prompt-lookup-min", promptLookupMin, "must be at least 1", "try " + DEFAULT_PROMPT_LOOKUP_MIN);
        }
        if (promptLookupMax < promptLookupMin) {
            throw new InvalidConfigException(
                    "--prompt-lookup-max",
                    promptLookupMax,
                    "must be at least --prompt-lookup-min = " + promptLookupMin,
                    "try " + Math.max(DEFAULT_PROMPT_LOOKUP_MAX, promptLookupMin));
        }
        if (method == SpeculationMethod.DRAFT_MODEL && model.isEmpty()) {
            throw new InvalidConfigException(
                    "--speculative-method",
                    method.optionName(),
                    "needs a model to draft with",
                    "give its directory with --speculative-model");
        }
        if (method != SpeculationMethod.DRAFT_MODEL && !model.isEmpty()) {
            throw new InvalidConfigException(
                    "--speculative-model",
                    model,
                    "is not used by --speculative-method " + method.optionName(),
                    "use --speculative-method draft_model, or leave the model out");
        }
    }

    /** A method with default settings. */
    public static SpeculativeConfig of(SpeculationMethod method, String model) {
        return new SpeculativeConfig(
                method,
                DEFAULT_NUM_SPECULATIVE_TOKENS,
                true,
                DEFAULT_PROMPT_LOOKUP_MAX,
                DEFAULT_PROMPT_LOOKUP_MIN,
                model,
                AcceptanceRule.COUPLED);
    }

    public boolean isOn() {
        return method != SpeculationMethod.NONE;
    }
}
