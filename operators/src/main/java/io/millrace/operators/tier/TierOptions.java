package io.millrace.operators.tier;

import io.millrace.engine.InvalidConfigException;
import java.io.Serializable;
import java.time.Duration;
import java.util.Objects;

/**
 * Which store the inference subtasks keep prefix KV in. Immutable; part of the job graph. How an engine uses it is
 * {@link io.millrace.prefix.TierConfig}'s.
 *
 * @param kind the store
 * @param capacityBytes of the whole job; subtasks with state share it, a process's disk store has all of it
 * @param ttl chunks unused for longer are evicted; zero for never
 * @param directory where a disk store keeps its files; empty for the TaskManager's working directory
 */
public record TierOptions(TierKind kind, long capacityBytes, Duration ttl, String directory) implements Serializable {
    public static final long DEFAULT_CAPACITY_BYTES = 10_000_000_000L;

    public static final TierOptions NONE = new TierOptions(TierKind.NONE, DEFAULT_CAPACITY_BYTES, Duration.ZERO, "");

    /** Less would hold no chunk of any but the smallest models. */
    private static final long MIN_CAPACITY_BYTES = 1 << 20;

    public TierOptions {
        Objects.requireNonNull(kind);
        Objects.requireNonNull(directory);
        if (capacityBytes < MIN_CAPACITY_BYTES) {
            throw new InvalidConfigException(
                    "--tier-capacity-bytes",
                    capacityBytes,
                    "must be at least " + MIN_CAPACITY_BYTES,
                    "try 10g, or --tier none to keep nothing");
        }
        if (ttl.isNegative()) {
            throw new InvalidConfigException("--tier-ttl", ttl, "must not be negative", "use 0 for no limit");
        }
        if (!directory.isEmpty() && kind != TierKind.DISK) {
            throw new InvalidConfigException(
                    "--tier-directory",
                    directory,
                    "is only for --tier disk, and this is --tier " + kind.optionName(),
                    "leave it out, or add --tier disk");
        }
    }

    public boolean isOn() {
        return kind != TierKind.NONE;
    }
}
