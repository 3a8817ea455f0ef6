package io.millrace.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.backend.KvFormat;
import io.millrace.backend.KvLayout;
import io.millrace.prefix.ChunkLoads.News;
import io.millrace.prefix.ChunkLoads.Wanted;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What is asked for, in which order, and what a miss does. */
class ChunkLoadsTest {
    private static final int CHUNK_TOKENS = 16;
    private static final int NUM_CHUNKS = 8;
    private static final int NUM_BLOCKS = 4;
    private static final long TIMEOUT_MILLIS = 500;

    /** Answers nothing by itself. */
    private static final class SilentStore implements PrefixStore {
        final List<Long> tickets = new ArrayList<>();
        final List<ChunkKey> asked = new ArrayList<>();
        final List<Long> cancelled = new ArrayList<>();

        @Override
        public void open(Answers answers) {}

        @Override
        public void find(long ticket, long affinityKey, List<ChunkKey> chain) {
            tickets.add(ticket);
        }

        @Override
        public void load(long ticket, long affinityKey, ChunkKey key) {
            tickets.add(ticket);
            asked.add(key);
        }

        @Override
        public void cancel(long ticket) {
            cancelled.add(ticket);
        }

        @Override
        public boolean store(long affinityKey, List<ChunkKey> chain, byte[][] pieces) {
            return false;
        }

        @Override
        public int maxLoadsInFlight() {
            return 2;
        }

        @Override
        public StoreStats stats() {
            return StoreStats.NONE;
        }

        @Override
        public void close() {}

        long last() {
            return tickets.get(tickets.size() - 1);
        }
    }

    private final SilentStore store = new SilentStore();
    private final ArrayKv kv = new ArrayKv(new KvLayout(1, 1, 2, 16, 2));
    private final ChunkCodec codec = new ChunkCodec(kv, KvFormat.AS_COMPUTED, CHUNK_TOKENS, "model");
    private final List<ChunkKey> keys = new ArrayList<>();
    private long now = 1;
    private final ChunkLoads loads = new ChunkLoads(
            store,
            codec,
            new TierConfig(KvFormat.AS_COMPUTED, CHUNK_TOKENS, true, 1 << 20, TIMEOUT_MILLIS),
            () -> now,
            () -> {});
    private final PrefixLoad load;

    ChunkLoadsTest() {
        kv.fill(IntStream.range(0, NUM_BLOCKS).toArray(), KvFormat.AS_COMPUTED, new SplittableRandom(7));
        for (int i = 0; i < NUM_CHUNKS; i++) {
            keys.add(new ChunkKey(i, i));
        }
        load = new PrefixLoad(3, keys, new int[NUM_CHUNKS * CHUNK_TOKENS], CHUNK_TOKENS);
    }

    private List<Wanted> wanted(int... chunks) {
        List<Wanted> wanted = new ArrayList<>();
        for (int chunk : chunks) {
            wanted.add(new Wanted(load, chunk, false));
        }
        return wanted;
    }

    @Test
    void whatWasFoundIsAskedForFromTheBackAsFarAsTheStoreHasRoom() {
        assertTrue(loads.find(load));
        loads.found(store.last(), 5);
        assertEquals(List.of(keys.get(4), keys.get(3)), store.asked);
        assertEquals(2, loads.numHeld());
        List<News> news = loads.takeNews();
        assertEquals(1, news.size());
        assertEquals(5, news.get(0).numFound());
        loads.want(wanted(7, 4, 2));
        loads.missed(store.tickets.get(1), TierMiss.NOT_STORED, "gone");
        assertEquals(List.of(keys.get(4), keys.get(3), keys.get(7)), store.asked);
    }

    @ParameterizedTest
    @EnumSource(
            value = TierMiss.class,
            names = {"NOT_STORED", "EVICTED", "CLOSED"})
    void whatIsNotThereIsCountedForWhatItIsAndSpeaksNotAgainstTheStore(TierMiss reason) {
        for (int i = 0; i < 2 * StoreHealth.MAX_FAILURES; i++) {
            loads.want(wanted(i));
            loads.missed(store.last(), reason, "a test's");
            assertEquals(reason, loads.takeNews().get(0).miss());
        }
        assertFalse(loads.isPaused(now));
        assertEquals(0, loads.numHeld());
    }

    @Test
    void readsThatFailInARowPause() {
        for (int i = 0; i < StoreHealth.MAX_FAILURES; i++) {
            assertFalse(loads.isPaused(now));
            loads.want(wanted(i));
            loads.missed(store.last(), TierMiss.READ_FAILED, "a test's");
            assertEquals(TierMiss.READ_FAILED, loads.takeNews().get(0).miss());
        }
        assertTrue(loads.isPaused(now));
        assertFalse(loads.find(load));
    }

    @Test
    void whatDoesNotComeInTimeIsGivenUpAndItsLateAnswerDropped() {
        loads.want(wanted(2));
        long ticket = store.last();
        assertEquals(now + TIMEOUT_MILLIS * 1_000_000, loads.nextDeadline());
        now = loads.nextDeadline() - 1;
        loads.expire();
        assertTrue(loads.takeNews().isEmpty());
        now++;
        loads.expire();
        assertEquals(TierMiss.TIMED_OUT, loads.takeNews().get(0).miss());
        assertEquals(List.of(ticket), store.cancelled);
        loads.missed(ticket, TierMiss.READ_FAILED, "late");
        assertTrue(loads.takeNews().isEmpty());
        assertEquals(0, loads.numHeld());
        assertEquals(Long.MAX_VALUE, loads.nextDeadline());
    }

    /** Pieces of the load's chunk that are as they ought to be, in arrays of the codec's. */
    private byte[][] pieces(int chunk) {
        byte[][] pieces =
                codec.encode(keys.get(chunk), load.tokenIds(), chunk * CHUNK_TOKENS, new int[] {chunk % NUM_BLOCKS});
        for (byte[] piece : pieces) {
            ChunkCodec.seal(piece);
        }
        return pieces;
    }

    /** That these are what the codec hands out next, in any order, and then fresh ones. */
    private void assertUsedAgain(byte[][]... expected) {
        Set<Object> left = Collections.newSetFromMap(new IdentityHashMap<>());
        left.addAll(List.of(expected));
        int[] lengths =
                IntStream.range(0, codec.numPieces()).map(codec::pieceBytes).toArray();
        for (int i = 0; i < expected.length; i++) {
            assertTrue(left.remove(loads.arraysFor(lengths)), "array " + i + " is another");
        }
        for (byte[][] each : expected) {
            assertNotSame(each, loads.arraysFor(lengths));
        }
    }

    @Test
    void arraysAreUsedAgainOnceTheirChunkIsReleased() {
        loads.want(wanted(7));
        byte[][] pieces = pieces(7);
        loads.loaded(store.last(), pieces);
        assertUsedAgain();
        News news = loads.takeNews().get(0);
        assertSame(pieces, news.pieces());
        assertUsedAgain();
        loads.release(news.pieces());
        assertEquals(0, loads.numHeld());
        assertUsedAgain(pieces);
    }

    @Test
    void whatCameForALoadThatIsClosedIsUsedAgain() {
        load.found(NUM_CHUNKS);
        loads.want(wanted(7, 6));
        byte[][] arrived = pieces(7);
        loads.loaded(store.tickets.get(0), arrived);
        load.arrived(7, loads.takeNews().get(0).pieces());
        byte[][] unheard = pieces(6);
        loads.loaded(store.tickets.get(1), unheard);
        assertEquals(2, loads.numHeld());
        loads.close(load);
        assertEquals(0, loads.numHeld());
        assertEquals(0, load.numArrived());
        assertUsedAgain(arrived, unheard);
    }

    @Test
    void whatIsAnsweredTwiceOrTooLateIsNotUsedAgain() {
        loads.want(wanted(7, 6));
        byte[][] pieces = pieces(7);
        loads.loaded(store.tickets.get(0), pieces);
        loads.loaded(store.tickets.get(0), pieces);
        assertEquals(1, loads.takeNews().size());
        loads.close(load);
        loads.loaded(store.tickets.get(1), pieces(6));
        assertUsedAgain();
    }

    @Test
    void aLoadThatIsClosedTakesBackWhatItAskedFor() {
        loads.want(wanted(7, 6, 5));
        loads.close(load);
        assertEquals(store.tickets, store.cancelled);
        assertEquals(2, store.asked.size());
        assertEquals(0, loads.numHeld());
    }
}
