package io.millrace.prefix;

import io.millrace.backend.KvTransfer;
import io.millrace.kvcache.BlockManager;
import io.millrace.prefix.ChunkLoads.News;
import io.millrace.prefix.PrefixLoad.ChunkState;
import io.millrace.prefix.TierStats.Restore;
import io.millrace.scheduler.LowerTier;
import io.millrace.scheduler.PromptLimits;
import io.millrace.scheduler.ScheduledBatch;
import io.millrace.scheduler.ScheduledSequence;
import io.millrace.scheduler.Scheduler;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.LongSupplier;

/**
 * The engine's half of the prefix tier: looks for stored prefixes as requests arrive, loads them from the back while the
 * scheduler computes from the front (Cake, Jin et al.), moves sequences on when the two have met, and hands the store what is
 * worth keeping. Nothing that it does changes an output: a chunk that does not come is computed. Engine thread only.
 */
public final class PrefixTier implements LowerTier {
    private static final int MAX_SIGHTINGS = 1 << 17;

    private final TierConfig config;
    private final int chunkTokens;
    private final BlockManager blocks;
    private final KvTransfer kv;
    private final PrefixStore store; // null: nothing is stored or loaded, only lossy KV rounded
    private final ChunkCodec codec;
    private final ChunkHasher hasher;
    private final ChunkLoads loads;
    private final LoadPlanner planner;
    private final ChunkExports exports;
    private final LongSupplier clock;
    private final ComputeRate compute = new ComputeRate();
    private final Sightings sightings = new Sightings(MAX_SIGHTINGS);
    private final TierCounts counts = new TierCounts();
    private final Map<Sequence, TierSequence> sequences = new IdentityHashMap<>();
    private final List<TierSequence> active = new ArrayList<>(); // with loads, in order of service
    private final List<TierSequence> toFind = new ArrayList<>(); // preempted, or evicted from memory while they waited
    private final List<TierSequence> loaded = new ArrayList<>(); // to the end of their prefixes since the last step
    private Scheduler scheduler;

    /**
     * A tier over a store, which it opens.
     *
     * @param kv of the device
     * @param store null if there is none: then KV is only rounded, if the format asks for that
     * @param fingerprint everything that the bits of KV depend on
     * @param clock nanoseconds; read by threads that answer, too
     * @param signal called by threads that answer: there is something for the next step
     */
    public PrefixTier(
            TierConfig config,
            BlockManager blocks,
            KvTransfer kv,
            PrefixStore store,
            String fingerprint,
            LongSupplier clock,
            Runnable signal) {
        this.config = config;
        this.blocks = blocks;
        this.kv = Objects.requireNonNull(kv);
        this.store = store;
        this.clock = clock;
        chunkTokens = config.chunkTokens();
        codec = new ChunkCodec(kv, config.format(), chunkTokens, fingerprint);
        hasher = new ChunkHasher(config.format(), chunkTokens);
        loads = new ChunkLoads(store, codec, config, clock, signal);
        planner = new LoadPlanner(chunkTokens, loads, compute);
        exports = new ChunkExports(store, codec, chunkTokens, blocks, sightings, counts, clock);
        if (store != null) {
            store.open(loads);
        }
    }

    /** Names the scheduler that this tier serves; before anything else. */
    public void setScheduler(Scheduler served) {
        scheduler = served;
    }

    /** Blocks that are shared and found together: those of a chunk if a chunk's KV changes when it becomes whole. */
    public static int unitBlocks(TierConfig config, int blockSize) {
        return config != null && config.format().isLossy() ? config.chunkTokens() / blockSize : 1;
    }

    /** Takes note of a group that was handed to the scheduler; looks for its prefix. */
    public void arrived(SequenceGroup group, long affinityKey) {
        if (store == null) {
            return;
        }
        boolean first = true;
        for (Sequence sequence : group.sequences()) {
            List<ChunkKey> keys = first || sequence.numOutputTokens() > 0
                    ? hasher.chain(group.salt(), sequence.tokenIds(), sequence.numTokens())
                    : new ArrayList<>(sequences.get(group.sequences().get(0)).keys);
            TierSequence each = new TierSequence(sequence, affinityKey, keys);
            sequences.put(sequence, each);
            if (first) {
                sightPrompt(each);
            }
            // Other samples fork from the first, unless they bring output of their own.
            boolean hasOwn = keys.size() > group.numPromptTokens() / chunkTokens;
            if (first || hasOwn) {
                find(each);
            }
            if (!first) {
                each.numOffered = group.numPromptTokens() / chunkTokens;
            }
            first = false;
        }
    }

    /** Takes in what was heard since the last step, and begins to plan the next. */
    public void beforeSchedule() {
        if (store == null) {
            return;
        }
        toFind.forEach(this::find);
        toFind.clear();
        if (!active.isEmpty()) {
            loads.expire();
            for (News news : loads.takeNews()) {
                hear(news);
            }
            for (TierSequence each : List.copyOf(active)) {
                moveOn(each);
                endIfOver(each);
            }
        }
        planner.begin(active, clock.getAsLong());
    }

    /** Whether the step had better wait a moment for an answer, until {@link #wakeNanos} at the latest. */
    public boolean isWorthWaiting(int budget) {
        if (store == null) {
            return false;
        }
        int numOtherTokens = active.isEmpty() ? 0 : scheduler.numOtherPromptTokens(budget);
        return planner.isWorthWaiting(active, budget, numOtherTokens);
    }

    /** Asks for what the planned step leaves to be loaded. */
    public void afterSchedule() {
        if (!active.isEmpty()) {
            loads.want(planner.wanted(active));
        }
    }

    /**
     * Takes note of a step that was run, after its progress was noted and before anything drawn was appended.
     *
     * @param sumPositions of the batch when it was run
     */
    public void afterStep(ScheduledBatch batch, double sumPositions, long nanos) {
        int numPromptTokens = 0;
        List<ScheduledSequence> scheduled = batch.sequences();
        for (int i = 0; i < scheduled.size(); i++) {
            ScheduledSequence part = scheduled.get(i);
            numPromptTokens += part.numTokens() > 1 ? part.numTokens() : 0;
            requantize(part);
            if (store != null) {
                noteProgress(part);
            }
        }
        loaded.clear();
        planner.observeStep(nanos);
        compute.observe(batch.numTokens(), sumPositions, numPromptTokens, nanos);
        if (store != null) {
            exports.afterStep(nanos);
        }
    }

    /** Does a little of what waits for idle moments; returns whether more is left. */
    public boolean workWhileIdle() {
        if (store != null) {
            exports.whileIdle();
        }
        return !exports.isEmpty();
    }

    /** Forgets a sequence that ends. */
    public void forget(Sequence sequence) {
        TierSequence each = sequences.remove(sequence);
        if (each != null) {
            toFind.remove(each);
            loaded.remove(each);
            close(each);
        }
    }

    /** When a step is worth trying though nothing was heard; Long.MAX_VALUE for never. */
    public long wakeNanos() {
        if (!toFind.isEmpty()) {
            return clock.getAsLong();
        }
        return active.isEmpty() ? Long.MAX_VALUE : Math.min(planner.wakeNanos(), loads.nextDeadline());
    }

    /** Counters as of now. */
    public TierStats stats() {
        if (store == null) {
            return TierStats.NONE;
        }
        double chunkNanos = loads.chunkNanos(clock.getAsLong());
        return counts.stats(
                loads.numBytesRead(),
                chunkNanos == 0 ? 0 : 1e9 * codec.chunkBytes() / chunkNanos,
                compute.tokensPerSecond(),
                store.stats());
    }

    @Override
    public boolean isLoading() {
        return !active.isEmpty() || !loaded.isEmpty();
    }

    @Override
    public PromptLimits promptLimits(int budget, int numOtherTokens, ScheduledBatch batch) {
        for (TierSequence each : loaded) {
            int numTokens = scheduler.numPromptTokensUpTo(each.sequence.group(), budget);
            PromptLimits limits = planner.limitsToLoaded(numTokens, budget, numOtherTokens);
            if (limits != null) {
                return limits;
            }
        }
        return planner.promptLimits(active, budget, numOtherTokens, batch);
    }

    @Override
    public boolean mayAdmit(Sequence sequence) {
        TierSequence each = sequences.get(sequence);
        return each == null || each.load == null || !planner.isFollower(each);
    }

    @Override
    public int endPosition(Sequence sequence, int maxEndPosition, ScheduledBatch batch) {
        int end = maxEndPosition;
        if (config.format().isLossy()) {
            end = Math.min(end, (sequence.numComputedTokens() / chunkTokens + 1) * chunkTokens);
        }
        if (active.isEmpty()) {
            return end;
        }
        TierSequence each = sequences.get(sequence);
        return each == null || each.load == null ? end : planner.endPosition(each, end, batch);
    }

    @Override
    public void admitted(Sequence sequence) {
        TierSequence each = sequences.get(sequence);
        if (each != null) {
            each.firstPosition = sequence.numComputedTokens();
            each.numLoaded = 0;
            each.numComputedBeside = 0;
            each.waitingSince = clock.getAsLong();
            if (each.load != null) {
                moveOn(each);
            } else {
                // In memory when it began to wait, it may not be any more.
                findLater(each, each.pointerChunk(chunkTokens));
            }
        }
    }

    @Override
    public void preempting(Sequence sequence) {
        TierSequence each = sequences.get(sequence);
        if (each == null) {
            return;
        }
        loaded.remove(each);
        close(each);
        exportIfItPays(each);
        each.restoring = true;
        findLater(each, 0);
    }

    /** Has a prefix looked for before the next step if a chunk of it, from the given one on, is thought to be stored. */
    private void findLater(TierSequence each, int firstChunk) {
        int numChunks = Math.min(each.keys.size(), (each.sequence.numTokens() - 1) / chunkTokens);
        for (int i = firstChunk; i < numChunks && !toFind.contains(each); i++) {
            if (sightings.isStored(each.keys.get(i))) {
                toFind.add(each);
            }
        }
    }

    /** Throws IllegalStateException if loads and their counts do not add up; for tests. */
    public void checkIntegrity() {
        int numArrived = 0;
        for (TierSequence each : active) {
            if (each.load == null || sequences.get(each.sequence) != each) {
                throw new IllegalStateException(each.sequence + " is listed as loading and is not");
            }
            if (each.isLoading() && !each.sequence.group().isLoadingPrefix()) {
                throw new IllegalStateException(each.sequence + " is loading, its group is not");
            }
            numArrived += each.load.numArrived();
        }
        if (numArrived > loads.numHeld()) {
            throw new IllegalStateException(numArrived + " chunks wait in memory, the count says " + loads.numHeld()
                    + " with those on their way");
        }
        if (active.isEmpty() && loads.numHeld() != 0) {
            throw new IllegalStateException(loads.numHeld() + " chunks are counted as held, though nothing is loading");
        }
    }

    /** Decides which chunks of a new request are worth storing: those that were met before. */
    private void sightPrompt(TierSequence each) {
        for (int i = 0; i < each.keys.size(); i++) {
            boolean before = sightings.see(each.keys.get(i));
            each.wanted.set(i, before || config.storeFirstUse());
        }
    }

    private void find(TierSequence each) {
        Sequence sequence = each.sequence;
        SequenceGroup group = sequence.group();
        int numChunks = Math.min(each.keys.size(), (sequence.numTokens() - 1) / chunkTokens);
        if (numChunks == 0 || group.needsPromptScores()) {
            return;
        }
        int numCached = sequence.isRunning()
                ? sequence.numComputedTokens()
                : blocks.numCachedTokens(sequence.tokenIds(), sequence.numTokens(), group.salt());
        int numUncached = numChunks - numCached / chunkTokens;
        if (numUncached <= 0) {
            return;
        }
        PrefixLoad load = new PrefixLoad(
                each.affinityKey, List.copyOf(each.keys.subList(0, numChunks)), sequence.tokenIds(), chunkTokens);
        counts.numQueriedTokens += (long) numUncached * chunkTokens;
        load.setNumCached(numCached / chunkTokens);
        each.load = load;
        each.waitingSince = clock.getAsLong();
        active.add(-Collections.binarySearch(active, each, (a, b) -> a.sequence.compareTo(b.sequence)) - 1, each);
        group.setLoadingPrefix(true);
        if (!loads.find(load)) {
            counts.missed(TierMiss.PAUSED, (long) numUncached * chunkTokens);
            close(each);
        }
    }

    private void hear(News news) {
        PrefixLoad load = news.load();
        if (load.closed) {
            return;
        }
        if (news.isFind()) {
            if (news.miss() == null) {
                heardFound(load, news.numFound());
            } else {
                counts.missed(news.miss(), (long) (load.keys().size() - load.numCached()) * chunkTokens);
                load.found(0);
            }
        } else if (news.miss() == null) {
            load.arrived(news.chunk(), news.pieces());
        } else {
            load.miss(news.chunk());
            sightings.setStored(load.keys().get(news.chunk()), false);
            counts.missed(news.miss(), chunkTokens);
            if (news.doubt() != null) {
                counts.refused(news.doubt());
            }
        }
    }

    private void heardFound(PrefixLoad load, int numFound) {
        load.found(numFound);
        List<ChunkKey> keys = load.keys();
        for (int i = 0; i < keys.size(); i++) {
            if (i < load.numStored() || sightings.isStored(keys.get(i))) {
                sightings.setStored(keys.get(i), i < load.numStored());
            }
        }
        int numHit = Math.max(0, load.numStored() - load.numCached());
        counts.numHitTokens += (long) numHit * chunkTokens;
        counts.missed(TierMiss.NOT_STORED, (long) (keys.size() - load.numCached() - numHit) * chunkTokens);
    }

    /** Puts what has come for a running sequence into its blocks, and moves it on over what is at hand. */
    private void moveOn(TierSequence each) {
        PrefixLoad load = each.load;
        Sequence sequence = each.sequence;
        if (!sequence.isRunning() || !scheduler.mayImport()) {
            return;
        }
        int pointerChunk = each.pointerChunk(chunkTokens);
        if (load.numArrived() > 0) {
            for (int chunk = 0; chunk < load.numStored(); chunk++) {
                if (load.state(chunk) == ChunkState.ARRIVED) {
                    boolean useful = chunk >= pointerChunk;
                    byte[][] pieces = load.take(chunk, useful ? ChunkState.RESIDENT : ChunkState.MISSING);
                    if (useful) {
                        codec.decode(pieces, blocksOf(sequence, chunk));
                    }
                    loads.release(pieces);
                }
            }
        }
        while (pointerChunk < load.numStored() && load.state(pointerChunk) == ChunkState.RESIDENT) {
            int first = sequence.numComputedTokens();
            int end = (pointerChunk + 1) * chunkTokens;
            scheduler.skipTo(sequence, end);
            each.numLoaded += end - first;
            counts.numLoadedTokens += end - first;
            if (!each.restoring) {
                sequence.group()
                        .addTierTokens(
                                Math.max(0, Math.min(end, sequence.group().numPromptTokens()) - first));
            }
            offer(each);
            pointerChunk++;
        }
    }

    /** Ends a load that nothing more can come of. */
    private void endIfOver(TierSequence each) {
        PrefixLoad load = each.load;
        if (load == null || load.isFinding()) {
            return;
        }
        int lastUseful = load.numStored() - 1;
        while (lastUseful >= 0 && load.state(lastUseful) == ChunkState.MISSING) {
            lastUseful--;
        }
        boolean passed = each.sequence.isRunning() && each.pointerChunk(chunkTokens) > lastUseful;
        if (lastUseful < 0 || passed) {
            account(each);
            close(each);
            if (passed && each.numLoaded > 0 && config.loadingLast()) {
                loaded.add(each);
            }
        } else {
            updateGroup(each);
        }
    }

    private void account(TierSequence each) {
        int numTokens = each.numLoaded + each.numComputedBeside;
        if (numTokens == 0) {
            return;
        }
        counts.numPrefixes++;
        counts.sumComputedShares += (double) each.numComputedBeside / numTokens;
        int end = each.firstPosition + numTokens;
        counts.savedNanos +=
                (long) compute.rangeNanos(each.firstPosition, end) - (clock.getAsLong() - each.waitingSince);
    }

    private void close(TierSequence each) {
        PrefixLoad load = each.load;
        if (load == null) {
            return;
        }
        loads.close(load);
        each.load = null;
        active.remove(each);
        updateGroup(each);
    }

    private void updateGroup(TierSequence each) {
        SequenceGroup group = each.sequence.group();
        boolean loading = each.isLoading();
        for (int i = 0; i < group.sequences().size() && !loading; i++) {
            TierSequence sibling = sequences.get(group.sequences().get(i));
            loading = sibling != null && sibling.isLoading();
        }
        group.setLoadingPrefix(loading);
    }

    private void noteProgress(ScheduledSequence part) {
        TierSequence each = sequences.get(part.sequence());
        if (each == null) {
            return;
        }
        Sequence sequence = each.sequence;
        int end = sequence.numComputedTokens();
        if (each.load != null) {
            int beside = Math.max(0, Math.min(end, each.load.endOfStored()) - part.firstPosition());
            each.numComputedBeside += beside;
            counts.numComputedTokens += beside;
            // Nothing is left to load for; or what follows would be written into blocks that forks share.
            if (end == sequence.numTokens() || !part.forks().isEmpty()) {
                account(each);
                close(each);
            }
        }
        for (Sequence fork : part.forks()) {
            TierSequence forked = sequences.get(fork);
            if (forked != null) {
                close(forked);
            }
        }
        offer(each);
        if (each.restoring && end == sequence.numTokens()) {
            each.restoring = false;
            counts.restored(kindOfRestore(each));
        }
    }

    private Restore kindOfRestore(TierSequence each) {
        if (each.numLoaded > 0) {
            return each.numComputedBeside > 0 ? Restore.BOTH : Restore.LOADED;
        }
        int numComputed = each.sequence.numTokens() - each.firstPosition;
        return numComputed <= blocks.blockSize() ? Restore.CACHED : Restore.RECOMPUTED;
    }

    /** Lets chunks be exported whose KV is complete now, if they are worth it. */
    private void offer(TierSequence each) {
        Sequence sequence = each.sequence;
        int numWhole = sequence.numComputedTokens() / chunkTokens;
        if (numWhole <= each.numOffered) {
            return;
        }
        hasher.extend(each.keys, sequence.group().salt(), sequence.tokenIds(), numWhole * chunkTokens);
        for (int chunk = each.numOffered; chunk < numWhole; chunk++) {
            ChunkKey key = each.keys.get(chunk);
            boolean worth = chunk < each.numChunksAtArrival
                    ? each.wanted.get(chunk)
                    : sightings.see(key) || config.storeFirstUse();
            if (worth && !sightings.isStored(key)) {
                exports.add(each, chunk);
            }
        }
        each.numOffered = numWhole;
    }

    /** Stores a victim's chunks if getting them back that way ends sooner than computing them. */
    private void exportIfItPays(TierSequence each) {
        Sequence sequence = each.sequence;
        int numWhole = Math.min(each.keys.size(), sequence.numComputedTokens() / chunkTokens);
        int first = 0;
        while (first < numWhole && sightings.isStored(each.keys.get(first))) {
            first++;
        }
        long now = clock.getAsLong();
        if (first == numWhole || !compute.isKnown() || loads.isPaused(now) || !scheduler.mayImport()) {
            return;
        }
        if (!new RestoreCost(compute, loads.chunkNanos(now), exports.nanosPerChunk(), chunkTokens)
                .storingPays(numWhole, numWhole - first)) {
            return;
        }
        for (int chunk = first; chunk < numWhole; chunk++) {
            if (!sightings.isStored(each.keys.get(chunk))) {
                exports.exportNow(each, chunk);
            }
        }
    }

    /** A chunk that became whole in a lossy format gets the numbers that loading it would have brought. */
    private void requantize(ScheduledSequence part) {
        Sequence sequence = part.sequence();
        int end = sequence.numComputedTokens();
        if (config.format().isLossy() && end % chunkTokens == 0 && end > part.firstPosition()) {
            int[] chunkBlocks = blocksOf(sequence, end / chunkTokens - 1);
            kv.requantize(chunkBlocks, chunkBlocks.length, config.format());
        }
    }

    private int[] blocksOf(Sequence sequence, int chunk) {
        int perChunk = chunkTokens / blocks.blockSize();
        return Arrays.copyOfRange(sequence.blockTable().blocks(), chunk * perChunk, (chunk + 1) * perChunk);
    }
}
