package io.millrace.operators.tier;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.operators.tier.ChunkIndex.Place;
import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierMiss;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The store over state in maps and a mailbox that the test empties. */
class StatePrefixStoreTest {
    private static final int PIECE_BYTES = 200;
    private static final long CHUNK_BYTES = 3 * PIECE_BYTES;

    private final HeapChunkState state = new HeapChunkState();
    private final Queue<Runnable> mails = new ArrayDeque<>();
    private final Heard heard = new Heard();
    private long nowMillis = 1_000_000;
    private long freeBytes = Long.MAX_VALUE;
    private int numMails;
    private StatePrefixStore store;

    private static final class Heard implements PrefixStore.Answers {
        final Map<Long, Integer> found = new TreeMap<>();
        final Map<Long, byte[][]> loaded = new TreeMap<>();
        final Map<Long, String> missed = new TreeMap<>();
        final Map<Long, TierMiss> misses = new TreeMap<>();

        @Override
        public void found(long ticket, int numChunks) {
            found.put(ticket, numChunks);
        }

        @Override
        public void loaded(long ticket, byte[][] pieces) {
            loaded.put(ticket, pieces);
        }

        @Override
        public void missed(long ticket, TierMiss reason, String text) {
            missed.put(ticket, text);
            misses.put(ticket, reason);
        }
    }

    @BeforeEach
    void open() throws Exception {
        open(10 * CHUNK_BYTES, 0, 100 * CHUNK_BYTES, "fingerprint");
    }

    private void open(long maxBytes, long ttlMillis, long maxBytesToWrite, String fingerprint) throws Exception {
        mails.clear();
        store = new StatePrefixStore(
                state,
                mails::add,
                new StatePrefixStore.Limits(maxBytes, ttlMillis, maxBytesToWrite),
                () -> nowMillis,
                () -> freeBytes,
                nanos -> numMails++);
        store.restore();
        store.setGeneration(fingerprint, 0);
        store.open(heard);
    }

    private static List<ChunkKey> chain(int document, int length) {
        List<ChunkKey> chain = new ArrayList<>();
        for (int i = 0; i < length; i++) {
            chain.add(new ChunkKey(document, i + 1));
        }
        return chain;
    }

    private static byte[][] pieces(int fill) {
        byte[][] pieces = new byte[3][PIECE_BYTES];
        for (byte[] piece : pieces) {
            Arrays.fill(piece, (byte) fill);
        }
        return pieces;
    }

    private void storeChain(long affinityKey, int document, int length) {
        for (int i = 1; i <= length; i++) {
            assertTrue(store.store(affinityKey, chain(document, i), pieces(document + i)));
        }
    }

    /** Runs mails until none is left, and makes sure that there is never more than one. */
    private void drain() {
        while (!mails.isEmpty()) {
            assertEquals(1, mails.size(), "more than one mail on its way");
            mails.remove().run();
            store.index().checkIntegrity();
        }
    }

    @Test
    void storedChunksAreFoundAndComeBackAsTheyWereSealed() {
        storeChain(5, 1, 3);
        drain();
        store.find(1, 5, chain(1, 4));
        store.find(2, 6, chain(1, 3));
        store.load(3, 5, chain(1, 2).get(1));
        drain();
        assertEquals(Map.of(1L, 3, 2L, 0), heard.found);
        byte[][] loaded = heard.loaded.get(3L);
        assertEquals(3, loaded.length);
        assertArrayEquals(
                Arrays.copyOfRange(pieces(3)[0], 100, PIECE_BYTES),
                Arrays.copyOfRange(loaded[0], 100, PIECE_BYTES),
                "behind the header");
        assertEquals(3, store.stats().numChunks());
        assertEquals(3 * CHUNK_BYTES, store.stats().numBytes());
        assertEquals(CHUNK_BYTES, store.stats().numBytesRead());
    }

    @Test
    void aMailReadsOrWritesOnePieceAndReadsGoFirst() {
        storeChain(5, 1, 1);
        drain();
        assertEquals(3, numMails);
        store.store(5, chain(2, 1), pieces(9));
        store.load(1, 5, chain(1, 1).get(0));
        for (int i = 0; i < 3; i++) {
            mails.remove().run();
        }
        assertTrue(heard.loaded.containsKey(1L), "the load was not first");
        assertEquals(1, store.stats().numChunksWritten());
        drain();
        assertEquals(2, store.stats().numChunksWritten());
        assertEquals(9, numMails);
    }

    @Test
    void anAnswerMayAskForTheNextChunk() throws Exception {
        storeChain(5, 1, 2);
        drain();
        List<Long> order = new ArrayList<>();
        store.open(new PrefixStore.Answers() {
            @Override
            public void found(long ticket, int numChunks) {}

            @Override
            public void loaded(long ticket, byte[][] pieces) {
                order.add(ticket);
                if (ticket == 1) {
                    store.load(2, 5, chain(1, 1).get(0));
                }
            }

            @Override
            public void missed(long ticket, TierMiss reason, String text) {
                throw new AssertionError(text);
            }
        });
        store.load(1, 5, chain(1, 2).get(1));
        drain();
        assertEquals(List.of(1L, 2L), order);
    }

    @Test
    void tailsMakeRoomTheLeastRecentlyUsedFirstAndNeverTheChunkBefore() {
        storeChain(1, 1, 4);
        drain();
        nowMillis += 10;
        storeChain(1, 2, 6);
        drain();
        assertEquals(10 * CHUNK_BYTES, store.stats().numBytes());
        nowMillis += 10;
        store.find(1, 1, chain(1, 4));
        drain();
        nowMillis += 10;
        storeChain(1, 3, 2);
        drain();
        store.find(2, 1, chain(1, 4));
        store.find(3, 1, chain(2, 6));
        store.find(4, 1, chain(3, 2));
        drain();
        assertEquals(Map.of(1L, 4, 2L, 4, 3L, 4, 4L, 2), heard.found);
        assertEquals(2, store.stats().numChunksEvicted());
        assertEquals(30, state.pieces.size(), "evicted pieces stay in state");
    }

    @Test
    void aChainLongerThanTheCapacityKeepsItsBeginning() {
        storeChain(1, 1, 12);
        drain();
        store.find(1, 1, chain(1, 12));
        drain();
        assertEquals(10, heard.found.get(1L));
        assertEquals(2, store.stats().numChunksDropped());
    }

    @Test
    void aFullWriteBufferDropsAndCounts() throws Exception {
        open(10 * CHUNK_BYTES, 0, 2 * CHUNK_BYTES, "fingerprint");
        assertTrue(store.store(1, chain(1, 1), pieces(1)));
        assertTrue(store.store(1, chain(2, 1), pieces(2)));
        assertFalse(store.store(1, chain(3, 1), pieces(3)));
        drain();
        assertEquals(1, store.stats().numChunksDropped());
        assertTrue(store.store(1, chain(3, 1), pieces(3)), "the buffer is empty again");
    }

    @Test
    void unusedChunksAreForgottenAfterTheirTime() throws Exception {
        open(10 * CHUNK_BYTES, 3_600_000, 100 * CHUNK_BYTES, "fingerprint");
        storeChain(1, 1, 2);
        storeChain(1, 2, 2);
        drain();
        nowMillis += 3_000_000;
        store.find(1, 1, chain(1, 1));
        drain();
        nowMillis += 1_000_000;
        store.tick();
        drain();
        store.find(2, 1, chain(1, 2));
        store.find(3, 1, chain(2, 2));
        drain();
        assertEquals(Map.of(1L, 1, 2L, 1, 3L, 0), heard.found);
        assertEquals(3, store.stats().numChunksEvicted());
        assertEquals(3, state.pieces.size());
    }

    @Test
    void aRestoreFindsWhatWasStoredWithTheTimesOfItsUse() throws Exception {
        open(10 * CHUNK_BYTES, 3_600_000, 100 * CHUNK_BYTES, "fingerprint");
        storeChain(1, 1, 2);
        storeChain(2, 2, 3);
        drain();
        nowMillis += 2_000_000;
        store.find(1, 2, chain(2, 3));
        drain();
        open(10 * CHUNK_BYTES, 3_600_000, 100 * CHUNK_BYTES, "fingerprint");
        nowMillis += 2_000_000;
        store.tick();
        drain();
        store.find(2, 1, chain(1, 2));
        store.find(3, 2, chain(2, 3));
        store.load(4, 2, chain(2, 3).get(2));
        drain();
        assertEquals(0, heard.found.get(2L));
        assertEquals(3, heard.found.get(3L));
        assertTrue(heard.loaded.containsKey(4L));
    }

    @Test
    void aRestoreRemovesWhatWasHalfWrittenOrHasLostItsParent() throws Exception {
        storeChain(1, 1, 3);
        drain();
        store.store(1, chain(2, 1), pieces(2));
        mails.remove().run();
        mails.remove().run();
        assertEquals(11, state.pieces.size());
        state.manifests.remove(new Place(1, chain(1, 2).get(1)));
        open();
        store.find(1, 1, chain(1, 3));
        store.find(2, 1, chain(2, 1));
        drain();
        assertEquals(Map.of(1L, 1, 2L, 0), heard.found);
        assertEquals(1, state.manifests.size());
    }

    @Test
    void chunksOfAnotherFingerprintGoFirst() throws Exception {
        storeChain(1, 1, 5);
        drain();
        open(10 * CHUNK_BYTES, 0, 100 * CHUNK_BYTES, "another");
        nowMillis -= 500; // used before, and kept nevertheless
        storeChain(1, 2, 5);
        storeChain(1, 3, 2);
        drain();
        store.find(1, 1, chain(1, 5));
        store.find(2, 1, chain(2, 5));
        store.find(3, 1, chain(3, 2));
        drain();
        assertEquals(Map.of(1L, 3, 2L, 5, 3L, 2), heard.found);
    }

    @Test
    void aPieceThatIsGoneOrUnreadableIsAMissAndItsChainEndsBeforeIt() {
        storeChain(1, 1, 3);
        storeChain(1, 2, 3);
        drain();
        state.pieces.remove(new HeapChunkState.PieceKey(new Place(1, chain(1, 2).get(1)), 2));
        state.broken.add(new HeapChunkState.PieceKey(new Place(1, chain(2, 3).get(2)), 1));
        store.load(1, 1, chain(1, 2).get(1));
        store.load(2, 1, chain(2, 3).get(2));
        store.load(3, 1, chain(2, 2).get(1));
        drain();
        assertEquals(List.of(1L, 2L), List.copyOf(heard.missed.keySet()));
        assertTrue(heard.missed.get(1L).contains("piece 2 of 3"), heard.missed.get(1L));
        assertEquals(Map.of(1L, TierMiss.READ_FAILED, 2L, TierMiss.READ_FAILED), heard.misses);
        assertTrue(heard.loaded.containsKey(3L));
        assertEquals(2, store.stats().numFailures());
        store.find(4, 1, chain(1, 3));
        store.find(5, 1, chain(2, 3));
        drain();
        assertEquals(Map.of(4L, 1, 5L, 2), heard.found);
        // What was lost can be stored again.
        store.store(1, chain(1, 2), pieces(9));
        drain();
        store.find(6, 1, chain(1, 3));
        drain();
        assertEquals(2, heard.found.get(6L));
    }

    @Test
    void aChunkThatWasHandedOutAndIsStoredAgainIsReplaced() {
        storeChain(1, 1, 1);
        drain();
        store.store(1, chain(1, 1), pieces(50));
        drain();
        assertEquals(1, store.stats().numChunksWritten(), "two requests met the same prefix");
        store.load(1, 1, chain(1, 1).get(0));
        drain();
        store.store(1, chain(1, 1), pieces(60));
        store.load(2, 1, chain(1, 1).get(0));
        drain();
        store.load(3, 1, chain(1, 1).get(0));
        drain();
        assertEquals(60, heard.loaded.get(3L)[0][PIECE_BYTES - 1]);
    }

    @Test
    void stateThatCannotBeWrittenCostsTheChunkAndNothingElse() {
        storeChain(1, 1, 1);
        drain();
        state.readOnly = true;
        store.store(1, chain(1, 2), pieces(2));
        drain();
        state.readOnly = false;
        storeChain(1, 2, 1);
        drain();
        store.find(1, 1, chain(1, 2));
        store.find(2, 1, chain(2, 1));
        drain();
        assertEquals(Map.of(1L, 1, 2L, 1), heard.found);
        assertTrue(store.stats().numFailures() > 0);
    }

    @Test
    void nothingIsStoredWhileTheDiskIsNearlyFull() {
        freeBytes = StateChunks.MIN_FREE_BYTES - 1;
        storeChain(1, 1, 1);
        drain();
        freeBytes = StateChunks.MIN_FREE_BYTES;
        storeChain(1, 2, 1);
        drain();
        store.find(1, 1, chain(1, 1));
        store.find(2, 1, chain(2, 1));
        drain();
        assertEquals(Map.of(1L, 0, 2L, 1), heard.found);
        assertEquals(1, store.stats().numChunksDropped());
        assertEquals(0, store.stats().numFailures());
    }

    @Test
    void cancelledLoadsAreNotReadAndAClosedStoreDoesNothing() {
        storeChain(1, 1, 2);
        drain();
        store.load(1, 1, chain(1, 1).get(0));
        store.load(2, 1, chain(1, 2).get(1));
        store.cancel(1);
        drain();
        assertEquals(List.of(2L), List.copyOf(heard.loaded.keySet()));
        store.load(3, 1, chain(1, 1).get(0));
        store.close();
        store.close();
        drain();
        assertFalse(heard.loaded.containsKey(3L));
        assertFalse(store.store(1, chain(3, 1), pieces(3)));
        assertTrue(mails.isEmpty());
    }
}
