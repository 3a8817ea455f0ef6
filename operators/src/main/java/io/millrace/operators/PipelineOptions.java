package io.millrace.operators;

import io.millrace.engine.EngineConfig;
import io.millrace.engine.InvalidConfigException;
import io.millrace.operators.tier.TierOptions;
import io.millrace.schemas.Completion;
import io.millrace.schemas.DeadLetter;
import io.millrace.schemas.Sampling;
import java.io.Serializable;
import java.util.Objects;
import org.apache.flink.util.function.SerializableFunction;

/**
 * What the inference pipeline needs to know beyond its input. Immutable; part of the job graph.
 *
 * @param engine the engine of every inference subtask
 * @param tier where prefix KV is kept below the engines' block pools; how they use it is the engine's setting
 * @param samplingDefaults settings of the command line, below a request's own and above generation_config.json's; null
 *     fields are not set
 * @param seed mixed with the request id into the seed of requests that bring none
 * @param prepareParallelism subtasks that tokenise and validate
 * @param inferenceParallelism subtasks that run an engine each
 * @param crashGuardDirectory durable directory (any Flink file system) where starts without progress and the request
 *     admitted alone after them are noted; not shared between jobs
 * @param allowFingerprintChange go on from a checkpoint of another numeric fingerprint (bits may then differ)
 * @param maxCompletionBytes largest record the completions sink takes; Long.MAX_VALUE for no limit
 * @param completionBytes serialised size of a completion
 * @param maxDeadLetterBytes largest record the dead-letter sink takes; longer originals are cut
 * @param deadLetterBytes serialised size of a dead letter
 */
public record PipelineOptions(
        EngineConfig engine,
        TierOptions tier,
        Sampling samplingDefaults,
        long seed,
        int prepareParallelism,
        int inferenceParallelism,
        String crashGuardDirectory,
        boolean allowFingerprintChange,
        long maxCompletionBytes,
        SerializableFunction<Completion, Long> completionBytes,
        long maxDeadLetterBytes,
        SerializableFunction<DeadLetter, Long> deadLetterBytes)
        implements Serializable {

    public PipelineOptions {
        Objects.requireNonNull(engine);
        Objects.requireNonNull(tier);
        Objects.requireNonNull(samplingDefaults);
        if (tier.isOn() != (engine.tier() != null)) {
            throw new InvalidConfigException(
                    "--tier",
                    tier.kind().optionName(),
                    "is set for the store and not for the engine, or the other way round",
                    "set both");
        }
        Objects.requireNonNull(crashGuardDirectory);
        Objects.requireNonNull(completionBytes);
        Objects.requireNonNull(deadLetterBytes);
        if (prepareParallelism < 1) {
            throw new InvalidConfigException(
                    "--prepare-parallelism", prepareParallelism, "must be at least 1", "leave it out for 1");
        }
        if (inferenceParallelism < 1) {
            throw new InvalidConfigException(
                    "--parallelism", inferenceParallelism, "must be at least 1", "use one per TaskManager");
        }
    }
}
