package io.millrace.job.cli;

import io.millrace.backend.KvFormat;
import io.millrace.engine.InvalidConfigException;
import io.millrace.operators.tier.TierKind;
import io.millrace.operators.tier.TierOptions;
import io.millrace.prefix.TierConfig;
import java.nio.file.Path;
import java.time.Duration;
import picocli.CommandLine.Option;

/** Options of the tier that keeps KV of prefixes on disk. */
final class PrefixTierOptions {

    @Option(
            names = "--tier",
            paramLabel = "WHERE",
            converter = ChoiceConverter.OfTierKind.class,
            description =
                    "Keep keys and values of prompts' beginnings on disk, and load them while the rest is computed: none, state"
                            + " (in checkpoints: survives failures) or disk (a database of the process's own, for more than"
                            + " checkpoints should carry). Results are the same either way. Default: none.")
    TierKind kind = TierKind.NONE;

    @Option(
            names = "--tier-capacity-bytes",
            paramLabel = "SIZE",
            converter = ByteSizeConverter.class,
            description =
                    "Most bytes that the tier keeps, in the whole job; the least recently used go first. With --tier"
                            + " state the disk may hold up to three times that until it is merged; --tier disk stays within it,"
                            + " in each process. Default: 10g.")
    Long capacityBytes;

    @Option(
            names = "--tier-ttl",
            paramLabel = "TIME",
            converter = DurationConverter.class,
            description = "Forget what was not used for so long, for example 24h. Default: never.")
    Duration ttl;

    @Option(
            names = "--tier-kv-dtype",
            paramLabel = "TYPE",
            converter = ChoiceConverter.OfKvFormat.class,
            description =
                    "Number format in the tier: as-computed, int8 or int4. The latter two take a half and a quarter of"
                            + " bfloat16's room and change results a little, whether a prefix is loaded or not. Default: as-computed.")
    KvFormat format;

    @Option(
            names = "--tier-store-first-use",
            description = "Store a prefix when it is seen first, not when it is seen again.")
    boolean storeFirstUse;

    @Option(
            names = "--tier-directory",
            paramLabel = "DIR",
            description = "Where --tier disk keeps its files. Default: among the state directory's temporary files.")
    Path directory;

    /** @throws InvalidConfigException if a value is outside its limits, or of no effect */
    TierOptions toOptions() {
        refuseWithoutTier("--tier-capacity-bytes", capacityBytes);
        refuseWithoutTier("--tier-ttl", ttl);
        refuseWithoutTier("--tier-kv-dtype", format == null ? null : format.optionName());
        refuseWithoutTier("--tier-store-first-use", storeFirstUse ? true : null);
        return new TierOptions(
                kind,
                capacityBytes == null ? TierOptions.DEFAULT_CAPACITY_BYTES : capacityBytes,
                ttl == null ? Duration.ZERO : ttl,
                directory == null ? "" : directory.toAbsolutePath().normalize().toString());
    }

    private void refuseWithoutTier(String option, Object value) {
        if (value != null && kind == TierKind.NONE) {
            throw new InvalidConfigException(
                    option, value, "has no effect without a tier", "add --tier state or --tier disk, or leave it out");
        }
    }

    /** How the engine uses the tier; null without one. */
    TierConfig toConfig() {
        TierConfig defaults = TierConfig.DEFAULT;
        return kind == TierKind.NONE
                ? null
                : new TierConfig(
                        format == null ? defaults.format() : format,
                        defaults.chunkTokens(),
                        storeFirstUse,
                        defaults.maxBufferBytes(),
                        defaults.loadTimeoutMillis());
    }
}
