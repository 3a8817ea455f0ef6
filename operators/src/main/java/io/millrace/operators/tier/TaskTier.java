package io.millrace.operators.tier;

import io.millrace.engine.InvalidConfigException;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierConfig;
import java.io.File;
import java.util.function.BiConsumer;
import java.util.function.LongConsumer;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.state.rocksdb.RocksDBKeyedStateBackend;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The prefix store of one task, of whichever kind, and what the task owes it. Task thread only. */
public final class TaskTier {
    private static final Logger LOG = LoggerFactory.getLogger(TaskTier.class);

    /** What waits to be written: a second's worth of a disk that is in use by others. */
    private static final long MAX_BYTES_TO_WRITE = 128L << 20;

    private final PrefixStore store; // null for none
    private final BiConsumer<String, Long> generation;
    private final Runnable tick;
    private final String where;

    private TaskTier(PrefixStore store, BiConsumer<String, Long> generation, Runnable tick, String where) {
        this.store = store;
        this.generation = generation;
        this.tick = tick;
        this.where = where;
    }

    /**
     * What the task has.
     *
     * @param workingDirectory of the TaskManager, on a local disk
     */
    public record Task(
            KeyedStateStore state,
            KeyedStateBackend<Long> backend,
            StatePrefixStore.Mailbox mailbox,
            int parallelism,
            File workingDirectory) {}

    /**
     * Opens the store and takes over what it held. Changes the current key.
     *
     * @param config how the engine uses the store, for the log
     * @param mailNanos told how long a mail of the store held the task thread
     * @throws InvalidConfigException if the store cannot work here
     */
    public static TaskTier open(TierOptions options, TierConfig config, Task task, LongConsumer mailNanos)
            throws Exception {
        if (!options.isOn()) {
            return new TaskTier(null, (fingerprint, version) -> {}, () -> {}, "nowhere");
        }
        TaskTier tier = options.kind() == TierKind.DISK ? openDisk(options, task) : openState(options, task, mailNanos);
        LOG.info(
                "prefix tier: KV of prefixes is kept {}, in chunks of {} tokens, {}, {}, when it is seen {}",
                tier.where,
                config.chunkTokens(),
                config.format().optionName(),
                options.ttl().isZero() ? "for ever" : "for " + options.ttl() + " after the last use",
                config.storeFirstUse() ? "for the first time" : "again");
        return tier;
    }

    private static TaskTier openDisk(TierOptions options, Task task) {
        String directory = options.directory().isEmpty()
                ? new File(task.workingDirectory(), "prefix-tier").getPath()
                : options.directory();
        DiskPrefixStore store =
                DiskPrefixStore.open(DiskStoreOptions.of(directory, options.capacityBytes(), options.ttl()));
        String where = "in " + directory + ", up to " + options.capacityBytes() + " bytes for this process";
        return new TaskTier(store, store::setGeneration, () -> {}, where);
    }

    private static TaskTier openState(TierOptions options, Task task, LongConsumer mailNanos) throws Exception {
        if (!(task.backend() instanceof RocksDBKeyedStateBackend)) {
            throw new InvalidConfigException(
                    "state.backend.type",
                    task.backend().getClass().getSimpleName(),
                    "holds state in memory, and --tier state keeps gigabytes in it",
                    "set state.backend.type: rocksdb, or --tier none");
        }
        StatePrefixStore store = new StatePrefixStore(
                task.state(),
                task.backend(),
                task.mailbox(),
                new StatePrefixStore.Limits(
                        options.capacityBytes() / task.parallelism(),
                        options.ttl().toMillis(),
                        MAX_BYTES_TO_WRITE),
                task.workingDirectory(),
                mailNanos);
        store.restore();
        String where =
                "in keyed state, up to " + options.capacityBytes() / task.parallelism() + " bytes for this subtask";
        return new TaskTier(store, store::setGeneration, store::tick, where);
    }

    /** The store, for the engine, which closes it; null for none. */
    public PrefixStore store() {
        return store;
    }

    /** The engine is open, and computes with this from now on. */
    public void setGeneration(String numericFingerprint, long policyVersion) {
        generation.accept(numericFingerprint, policyVersion);
    }

    /** Closes a store that no engine owns yet. */
    public void close() {
        if (store != null) {
            store.close();
        }
    }

    /** To be called now and then. */
    public void tick() {
        tick.run();
    }
}
