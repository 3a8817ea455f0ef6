package io.millrace.operators.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.millrace.operators.tier.Segments.Piece;
import io.millrace.operators.tier.Segments.Segment;
import io.millrace.prefix.ChunkKey;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SegmentsTest {
    private static Piece piece(int number) {
        return new Piece(new ChunkKey(1, number / 3), number % 3);
    }

    private static Segment<String> append(Segments<String> segments, String name, int piece, int numBytes) {
        Segment<String> open = segments.open();
        Segment<String> segment = open != null ? open : segments.begin(name);
        segments.add(segment, piece(piece), numBytes);
        return segment;
    }

    @Test
    void aSegmentIsFullWhenItHasItsBytes() {
        Segments<String> segments = new Segments<>(100);
        assertNull(segments.open());
        assertEquals("a", append(segments, "a", 0, 60).storage);
        assertEquals("a", append(segments, "b", 1, 60).storage);
        assertNull(segments.open());
        assertEquals("b", append(segments, "b", 2, 10).storage);
        assertEquals(130, segments.numBytes());
    }

    @Test
    void theSegmentThatGivesMostBackGoesFirstAndTheNewestNever() {
        Segments<String> segments = new Segments<>(100);
        for (int i = 0; i < 6; i++) {
            append(segments, "segment " + i / 2, i, 50);
        }
        assertNull(segments.leastWanted(Long.MAX_VALUE), "all is wanted");
        segments.remove(piece(0));
        segments.remove(piece(4));
        segments.remove(piece(5));
        assertEquals("segment 0", segments.leastWanted(Long.MAX_VALUE).storage);
        assertNull(segments.leastWanted(49));
        segments.remove(piece(2));
        segments.remove(piece(3));
        assertEquals("segment 1", segments.leastWanted(0).storage);
    }

    @Test
    void aSegmentIsLetGoByItsLastReader() {
        Segments<String> segments = new Segments<>(10);
        append(segments, "a", 0, 10);
        append(segments, "b", 1, 10);
        Segment<String> a = segments.enter(piece(0), 10);
        assertNull(segments.enter(piece(0), 9), "another length");
        assertNull(segments.enter(piece(7), 10), "never written");
        Segment<String> again = segments.enter(piece(0), 10);
        assertFalse(segments.remove(a), "two read it");
        assertNull(segments.enter(piece(0), 10), "gone");
        assertFalse(segments.leave(a));
        assertTrue(segments.leave(again));
        Segment<String> b = segments.enter(piece(1), 10);
        assertFalse(segments.leave(b));
        assertTrue(segments.remove(b));
        assertEquals(0, segments.numBytes());
    }

    @Test
    void whatWasRemovedWhileItWasCopiedStaysSo() {
        Segments<String> segments = new Segments<>(10);
        Segment<String> a = append(segments, "a", 0, 10);
        Segment<String> b = append(segments, "b", 1, 5);
        segments.remove(piece(0));
        segments.move(a, b, piece(0), 10);
        assertNull(segments.enter(piece(0), 10));
        assertEquals(25, segments.numBytes(), "the copy takes its room");
        assertEquals(Map.of(piece(1), 5), segments.wanted(b));
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3})
    void everyPieceIsWhereItWasWrittenLast(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Segments<String> segments = new Segments<>(1_000);
        Map<Piece, String> places = new HashMap<>();
        Map<Piece, Integer> lengths = new HashMap<>();
        Map<String, Long> bytesOf = new LinkedHashMap<>();
        int numBegun = 0;
        for (int i = 0; i < 4_000; i++) {
            Piece piece = piece(random.nextInt(60));
            int choice = random.nextInt(10);
            if (choice < 6) {
                int numBytes = 1 + random.nextInt(300);
                Segment<String> open = segments.open();
                Segment<String> segment = open != null ? open : segments.begin("segment " + ++numBegun);
                segments.add(segment, piece, numBytes);
                places.put(piece, segment.storage);
                lengths.put(piece, numBytes);
                bytesOf.merge(segment.storage, (long) numBytes, Long::sum);
            } else if (choice < 9) {
                segments.remove(piece);
                places.remove(piece);
            } else {
                Segment<String> least = segments.leastWanted(random.nextInt(600));
                if (least != null) {
                    assertTrue(segments.remove(least), "nobody reads; seed " + seed);
                    places.values().removeIf(least.storage::equals);
                    bytesOf.remove(least.storage);
                }
            }
            Segment<String> found = segments.enter(piece, lengths.getOrDefault(piece, 1));
            assertEquals(places.get(piece), found == null ? null : found.storage, "seed " + seed);
            if (found != null) {
                assertNotNull(segments.wanted(found).get(piece));
                segments.leave(found);
            }
            assertEquals(
                    bytesOf.values().stream().mapToLong(bytes -> bytes).sum(), segments.numBytes(), "seed " + seed);
        }
        assertTrue(numBegun > 100 && numBegun > bytesOf.size(), "segments came and went; seed " + seed);
    }
}
