package io.millrace.bench.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.prefix.ChunkKey;
import io.millrace.prefix.PrefixStore;
import io.millrace.prefix.TierMiss;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class VirtualTimeTest {
    private final VirtualClock clock = new VirtualClock();
    private final List<String> seen = new ArrayList<>();

    @Test
    void whatIsDueHappensAtItsOwnTime() {
        clock.schedule(30, () -> seen.add("b " + clock.getAsLong()));
        clock.schedule(10, () -> {
            seen.add("a " + clock.getAsLong());
            clock.schedule(20, () -> seen.add("c " + clock.getAsLong()));
        });
        clock.advance(25);
        assertEquals(List.of("a 10", "c 20"), seen);
        assertEquals(25, clock.getAsLong());
        assertTrue(clock.advanceToNext());
        assertEquals(30, clock.getAsLong());
        assertFalse(clock.advanceToNext());
    }

    @Test
    void aTransferOverAChangingLinkTakesWhatEveryPeriodCarries() {
        Bandwidth link = Bandwidth.redrawn(8, 100, 7); // at most 1 byte a nanosecond
        double first = Bandwidth.uniform(7, 0) * 100;
        double second = Bandwidth.uniform(7, 1) * 100;
        assertEquals(100, link.finishNanos(0, first), 1);
        assertEquals(200, link.finishNanos(0, first + second), 1);
        assertEquals(150, link.finishNanos(100, second / 2), 1);
        assertEquals(1000 + 80, Bandwidth.constant(8).finishNanos(1000, 80));
    }

    @Test
    void aStoreCarriesOneChunkAfterTheOther() {
        Map<ChunkKey, byte[][]> chunks = new HashMap<>();
        List<ChunkKey> chain = List.of(new ChunkKey(1, 1), new ChunkKey(2, 2), new ChunkKey(3, 3));
        chunks.put(chain.get(0), new byte[][] {{1}});
        chunks.put(chain.get(1), new byte[][] {{2}});
        VirtualStore store = new VirtualStore(clock, Bandwidth.constant(8), 100, chunks);
        store.open(new PrefixStore.Answers() {
            @Override
            public void found(long ticket, int numChunks) {
                seen.add(ticket + " found " + numChunks + " at " + clock.getAsLong());
            }

            @Override
            public void loaded(long ticket, byte[][] pieces) {
                seen.add(ticket + " loaded " + pieces[0][0] + " at " + clock.getAsLong());
            }

            @Override
            public void missed(long ticket, TierMiss reason, String text) {
                seen.add(ticket + " " + text);
            }
        });
        store.find(1, 0, chain);
        store.load(2, 0, chain.get(1));
        store.load(3, 0, chain.get(0));
        store.load(4, 0, chain.get(2));
        store.load(5, 0, chain.get(0));
        store.cancel(5);
        clock.advance(1000);
        assertEquals(List.of("1 found 2 at 0", "2 loaded 2 at 100", "3 loaded 1 at 200", "4 absent"), seen);
    }
}
