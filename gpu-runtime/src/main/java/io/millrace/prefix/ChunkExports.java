package io.millrace.prefix;

import io.millrace.kvcache.BlockManager;
import io.millrace.kvcache.BlockTable;
import io.millrace.sequence.Sequence;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.function.LongSupplier;

/**
 * Takes chunks out of the device and hands them to the store, behind the steps: a small share of the steps' time, and what is
 * idle. A chunk whose sequence has ended meanwhile is taken from the block cache, if it is still there. Engine thread only,
 * between steps.
 */
final class ChunkExports {
    private static final double SHARE_OF_STEPS = 0.012;
    private static final long MAX_CREDIT_NANOS = 20_000_000L;
    private static final int MAX_CHUNKS_A_STEP = 8;
    private static final int MAX_WAITING = 8192;

    private record Chunk(TierSequence owner, int[] tokenIds, List<ChunkKey> chain, int index, String salt) {}

    private final PrefixStore store;
    private final ChunkCodec codec;
    private final int chunkTokens;
    private final BlockManager blocks;
    private final Sightings sightings;
    private final TierCounts counts;
    private final LongSupplier clock;
    private final Queue<Chunk> waiting = new ArrayDeque<>();
    private double credit;
    private double nanosPerChunk; // 0 while unknown

    ChunkExports(
            PrefixStore store,
            ChunkCodec codec,
            int chunkTokens,
            BlockManager blocks,
            Sightings sightings,
            TierCounts counts,
            LongSupplier clock) {
        this.store = store;
        this.codec = codec;
        this.chunkTokens = chunkTokens;
        this.blocks = blocks;
        this.sightings = sightings;
        this.counts = counts;
        this.clock = clock;
    }

    /** Notes a chunk whose KV is complete to be stored. */
    void add(TierSequence owner, int index) {
        if (waiting.size() == MAX_WAITING) {
            waiting.remove();
            counts.numChunksDropped++;
        }
        Sequence sequence = owner.sequence;
        waiting.add(new Chunk(
                owner,
                sequence.tokenIds(),
                List.copyOf(owner.keys.subList(0, index + 1)),
                index,
                sequence.group().salt()));
    }

    boolean isEmpty() {
        return waiting.isEmpty();
    }

    /** Exports what a step of that length earned. */
    void afterStep(long stepNanos) {
        credit = Math.min(MAX_CREDIT_NANOS, credit + SHARE_OF_STEPS * stepNanos);
        for (int i = 0; i < MAX_CHUNKS_A_STEP && credit > 0 && !waiting.isEmpty(); i++) {
            credit -= exportNext();
        }
    }

    /** Exports a chunk while there is nothing else to do. */
    void whileIdle() {
        if (!waiting.isEmpty()) {
            exportNext();
        }
    }

    /**
     * What exporting a chunk takes on the engine thread.
     *
     * @return nanoseconds; 0 while unknown
     */
    double nanosPerChunk() {
        return nanosPerChunk;
    }

    private long exportNext() {
        Chunk chunk = waiting.remove();
        if (sightings.isStored(chunk.chain().get(chunk.index()))) {
            return 0;
        }
        int[] chunkBlocks = blocksOf(chunk);
        if (chunkBlocks == null) {
            counts.numChunksDropped++;
            return 0;
        }
        return export(chunk.owner().affinityKey, chunk.chain(), chunk.tokenIds(), chunk.index(), chunkBlocks);
    }

    /** Exports a chunk of a running sequence at once. */
    void exportNow(TierSequence owner, int index) {
        export(
                owner.affinityKey,
                List.copyOf(owner.keys.subList(0, index + 1)),
                owner.sequence.tokenIds(),
                index,
                blocksOf(owner.sequence.blockTable(), index));
    }

    private long export(long affinityKey, List<ChunkKey> chain, int[] tokenIds, int index, int[] chunkBlocks) {
        long begun = clock.getAsLong();
        ChunkKey key = chain.get(index);
        byte[][] pieces = codec.encode(key, tokenIds, index * chunkTokens, chunkBlocks);
        if (store.store(affinityKey, chain, pieces)) {
            sightings.setStored(key, true);
            counts.numChunksExported++;
            counts.numBytesHandedOver += codec.chunkBytes();
        } else { // the store has counted it
            codec.giveBack(pieces);
        }
        long nanos = clock.getAsLong() - begun;
        nanosPerChunk = nanosPerChunk == 0 ? nanos : 0.8 * nanosPerChunk + 0.2 * nanos;
        return nanos;
    }

    private int[] blocksOf(Chunk chunk) {
        Sequence sequence = chunk.owner().sequence;
        int end = (chunk.index() + 1) * chunkTokens;
        if (sequence.isRunning() && sequence.numComputedTokens() >= end) {
            return blocksOf(sequence.blockTable(), chunk.index());
        }
        int[] prefix = blocks.cachedBlocks(chunk.tokenIds(), end, chunk.salt());
        return prefix == null ? null : Arrays.copyOfRange(prefix, chunk.index() * blocksPerChunk(), prefix.length);
    }

    private int[] blocksOf(BlockTable table, int index) {
        return Arrays.copyOfRange(table.blocks(), index * blocksPerChunk(), (index + 1) * blocksPerChunk());
    }

    private int blocksPerChunk() {
        return chunkTokens / blocks.blockSize();
    }
}
