package io.millrace.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.kvcache.BlockManager;
import io.millrace.sampling.SamplingParams;
import io.millrace.sequence.Sequence;
import io.millrace.sequence.SequenceGroup;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Which chunks leave the device, when, and from where. */
class ChunkExportsTest {
    private static final int BLOCK_SIZE = 16;
    private static final int CHUNK_TOKENS = 2 * BLOCK_SIZE;
    private static final int NUM_BLOCKS = 64;
    private static final KvLayout LAYOUT = new KvLayout(2, 1, 4, BLOCK_SIZE, 2);
    private static final long STORE_NANOS = 1_000_000;
    private static final double SHARE_OF_STEPS = 0.012;
    private static final String SALT = "salt";

    /** Takes time on the test's clock, keeps what it gets or refuses it. */
    private final class RecordingStore implements PrefixStore {
        final List<Long> affinityKeys = new ArrayList<>();
        final List<List<ChunkKey>> chains = new ArrayList<>();
        final List<byte[][]> chunks = new ArrayList<>();
        boolean isRefusing;

        @Override
        public void open(Answers answers) {}

        @Override
        public void find(long ticket, long affinityKey, List<ChunkKey> chain) {
            throw new AssertionError("exports look for nothing");
        }

        @Override
        public void load(long ticket, long affinityKey, ChunkKey key) {
            throw new AssertionError("exports load nothing");
        }

        @Override
        public void cancel(long ticket) {
            throw new AssertionError("there is nothing to cancel");
        }

        @Override
        public boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces) {
            now += STORE_NANOS;
            affinityKeys.add(affinityKey);
            chains.add(chain);
            chunks.add(pieces);
            return !isRefusing;
        }

        @Override
        public int maxLoadsInFlight() {
            return 1;
        }

        @Override
        public StoreStats stats() {
            return StoreStats.NONE;
        }

        @Override
        public void close() {}
    }

    private final RecordingStore store = new RecordingStore();
    private final ArrayKv kv = new ArrayKv(LAYOUT);
    private final ChunkCodec codec = new ChunkCodec(kv, KvFormat.AS_COMPUTED, CHUNK_TOKENS, "model");
    private final BlockManager blocks = new BlockManager(NUM_BLOCKS, BLOCK_SIZE, true);
    private final Sightings sightings = new Sightings(100_000);
    private final TierCounts counts = new TierCounts();
    private long now = 1;
    private final ChunkExports exports =
            new ChunkExports(store, codec, CHUNK_TOKENS, blocks, sightings, counts, () -> now);
    private int numPrompts;

    ChunkExportsTest() {
        kv.fill(IntStream.range(0, NUM_BLOCKS).toArray(), KvFormat.AS_COMPUTED, new SplittableRandom(5));
    }

    /** A running sequence whose prompt of so many chunks and a token is computed but for the token. */
    private TierSequence computed(int numChunks) {
        int numTokens = numChunks * CHUNK_TOKENS + 1;
        int firstId = 1000 * ++numPrompts;
        int[] prompt = IntStream.range(firstId, firstId + numTokens).toArray();
        SequenceGroup group = new SequenceGroup(new SequenceGroup.Settings(
                "r" + numPrompts,
                prompt,
                SamplingParams.builder().maxTokens(1).build(),
                0,
                numPrompts,
                SALT,
                false,
                new int[0]));
        Sequence sequence = group.addSequence(0, new int[0]);
        assertEquals(0, blocks.allocate(sequence.blockTable(), prompt, numTokens, SALT, true, 0));
        sequence.run(0);
        sequence.advance(numTokens - 1);
        blocks.markComputed(sequence.blockTable(), prompt, 0, numTokens - 1, SALT);
        List<ChunkKey> keys = new ChunkHasher(KvFormat.AS_COMPUTED, CHUNK_TOKENS).chain(SALT, prompt, numTokens);
        assertEquals(numChunks, keys.size());
        return new TierSequence(sequence, 40 + numPrompts, keys);
    }

    private void addAll(TierSequence owner) {
        for (int i = 0; i < owner.keys.size(); i++) {
            exports.add(owner, i);
        }
    }

    /** That the store got a sequence's chunk as its number so many. */
    private void assertStored(int number, TierSequence owner, int index, int[] tokens, int[] chunkBlocks) {
        assertEquals(owner.affinityKey, store.affinityKeys.get(number));
        assertEquals(owner.keys.subList(0, index + 1), store.chains.get(number));
        byte[][] pieces = store.chunks.get(number);
        for (byte[] piece : pieces) {
            ChunkCodec.seal(piece);
        }
        assertNull(codec.check(owner.keys.get(index), tokens, index * CHUNK_TOKENS, pieces));
        int unitBytes = LAYOUT.unitBytes(KvFormat.AS_COMPUTED);
        int payload = PieceHeader.NUM_BYTES + CHUNK_TOKENS * Integer.BYTES;
        for (int unit = 0; unit < LAYOUT.numUnits(2); unit++) {
            int from = payload + unit * unitBytes;
            assertArrayEquals(kv.unit(chunkBlocks, unit), Arrays.copyOfRange(pieces[0], from, from + unitBytes));
        }
    }

    private static int[] blocksOf(TierSequence owner, int index) {
        return Arrays.copyOfRange(owner.sequence.blockTable().blocks(), 2 * index, 2 * index + 2);
    }

    @Test
    void aRunningSequencesChunksAreTakenFromItsBlocksOneAtATimeWhileIdle() {
        TierSequence owner = computed(3);
        addAll(owner);
        for (int i = 0; i < 3; i++) {
            assertFalse(exports.isEmpty());
            exports.whileIdle();
            assertEquals(i + 1, store.chunks.size());
            assertStored(i, owner, i, owner.sequence.tokenIds(), blocksOf(owner, i));
            assertTrue(sightings.isStored(owner.keys.get(i)));
        }
        assertTrue(exports.isEmpty());
        exports.whileIdle();
        assertEquals(3, counts.numChunksExported);
        assertEquals(3 * codec.chunkBytes(), counts.numBytesHandedOver);
        assertEquals(0, counts.numChunksDropped);
    }

    @Test
    void aChunkOfAnEndedSequenceIsTakenFromTheBlockCache() {
        TierSequence owner = computed(2);
        int[] tokens = owner.sequence.tokenIds();
        int[] chunkBlocks = blocksOf(owner, 1);
        exports.add(owner, 1);
        blocks.free(owner.sequence.blockTable());
        owner.sequence.finish();
        exports.whileIdle();
        assertStored(0, owner, 1, tokens, chunkBlocks);
        assertEquals(1, counts.numChunksExported);
    }

    @Test
    void aChunkWhoseBlocksAreGoneIsDroppedAndCounted() {
        TierSequence owner = computed(2);
        addAll(owner);
        blocks.free(owner.sequence.blockTable());
        owner.sequence.finish();
        computed(NUM_BLOCKS / 2 - 1); // takes all blocks but one
        exports.whileIdle();
        exports.whileIdle();
        assertTrue(exports.isEmpty());
        assertEquals(List.of(), store.chunks);
        assertEquals(2, counts.numChunksDropped);
        assertFalse(sightings.isStored(owner.keys.get(0)));
    }

    @Test
    void aChunkThatIsComputedAgainAfterAPreemptionWaitsForNothing() {
        TierSequence owner = computed(2);
        exports.add(owner, 1);
        int[] tokens = owner.sequence.tokenIds();
        int[] chunkBlocks = blocksOf(owner, 1);
        blocks.free(owner.sequence.blockTable());
        owner.sequence.preempt();
        exports.whileIdle();
        assertStored(0, owner, 1, tokens, chunkBlocks);
    }

    @Test
    void whatTheStoreHasIsNotExportedAgain() {
        TierSequence owner = computed(2);
        addAll(owner);
        sightings.setStored(owner.keys.get(0), true);
        exports.whileIdle();
        assertEquals(0, store.chunks.size());
        exports.whileIdle();
        assertStored(0, owner, 1, owner.sequence.tokenIds(), blocksOf(owner, 1));
        assertEquals(0, counts.numChunksDropped);
    }

    @Test
    void aRefusedChunkIsNotTakenForStoredAndItsArraysAreUsedAgain() {
        TierSequence owner = computed(3);
        addAll(owner);
        store.isRefusing = true;
        exports.whileIdle();
        assertFalse(sightings.isStored(owner.keys.get(0)));
        assertEquals(0, counts.numChunksExported);
        assertEquals(0, counts.numBytesHandedOver);
        store.isRefusing = false;
        exports.whileIdle();
        assertSame(store.chunks.get(0), store.chunks.get(1));
        assertStored(1, owner, 1, owner.sequence.tokenIds(), blocksOf(owner, 1));
        exports.whileIdle();
        assertNotSame(store.chunks.get(1), store.chunks.get(2), "the store has these still");
    }

    @Test
    void stepsEarnTheirShareAndNoMore() {
        addAll(computed(20));
        long stepNanos = 25_000_000; // earns 0.3 ms; an export takes 1 ms
        int numSteps = 0;
        for (int i = 0; i < 40; i++) {
            exports.afterStep(stepNanos);
            numSteps++;
            double earned = SHARE_OF_STEPS * stepNanos * numSteps;
            long spent = STORE_NANOS * store.chunks.size();
            assertTrue(spent - STORE_NANOS < earned, spent + " spent, " + earned + " earned");
            assertTrue(spent > earned - SHARE_OF_STEPS * stepNanos - 1, spent + " spent, " + earned + " earned");
        }
        assertEquals(12, store.chunks.size());
        assertEquals(STORE_NANOS, exports.nanosPerChunk());
    }

    @Test
    void whatWasEarnedInVainIsKeptForAFewChunksOnly() {
        for (int i = 0; i < 100; i++) {
            exports.afterStep(1_000_000_000L);
        }
        addAll(computed(28));
        int[] numAfterSteps = new int[4];
        for (int i = 0; i < numAfterSteps.length; i++) {
            exports.afterStep(1);
            numAfterSteps[i] = store.chunks.size();
        }
        // 20 ms are kept, 8 chunks a step are taken.
        assertArrayEquals(new int[] {8, 16, 21, 21}, numAfterSteps);
    }

    @Test
    void aVictimsChunkIsExportedAtOnce() {
        TierSequence owner = computed(2);
        exports.exportNow(owner, 1);
        assertStored(0, owner, 1, owner.sequence.tokenIds(), blocksOf(owner, 1));
        assertEquals(STORE_NANOS, exports.nanosPerChunk());
        assertTrue(exports.isEmpty());
    }

    @Test
    void whenTooManyWaitTheOldestAreDropped() {
        TierSequence owner = computed(1);
        TierSequence other = computed(1);
        exports.add(other, 0);
        for (int i = 0; i < 8192; i++) {
            exports.add(owner, 0);
        }
        assertEquals(1, counts.numChunksDropped);
        while (!exports.isEmpty()) {
            exports.whileIdle();
        }
        assertEquals(1, store.chunks.size(), "the same chunk is exported once");
        assertEquals(owner.keys, store.chains.get(0));
    }
}
