package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Which segment of a log each piece lies in, and how much of a segment is still wanted (Rosenblum and Ousterhout's log-structured
 * file system): pieces are appended to the newest segment and never changed; a segment goes as a whole, after what is wanted
 * of it was appended again. A segment that goes is let go when its last reader has left it. Any thread.
 *
 * @param <T> what a segment lies in
 */
final class Segments<T> {
    private final long segmentBytes;
    private final List<Segment<T>> segments = new ArrayList<>(); // oldest first
    private final Map<Piece, Segment<T>> places = new HashMap<>();

    /** A chunk's piece. */
    record Piece(ChunkKey key, int number) {}

    /** A run of pieces that were written one after another. */
    static final class Segment<T> {
        final T storage;
        private final Map<Piece, Integer> wanted = new HashMap<>(); // lengths
        private long numBytes;
        private long numWantedBytes;
        private int numReaders;
        private boolean isRemoved;

        private Segment(T storage) {
            this.storage = storage;
        }

        private long numUnwantedBytes() {
            return numBytes - numWantedBytes;
        }
    }

    /** @param segmentBytes of pieces; the last one of a segment may go beyond */
    Segments(long segmentBytes) {
        this.segmentBytes = segmentBytes;
    }

    /** The newest segment if it takes more; null otherwise. */
    synchronized Segment<T> open() {
        Segment<T> newest = segments.isEmpty() ? null : segments.get(segments.size() - 1);
        return newest == null || newest.numBytes >= segmentBytes ? null : newest;
    }

    /** Begins a new segment; nothing is appended to the others any more. */
    synchronized Segment<T> begin(T storage) {
        Segment<T> segment = new Segment<>(storage);
        segments.add(segment);
        return segment;
    }

    /** Notes that a piece was written to the newest segment. */
    synchronized void add(Segment<T> segment, Piece piece, int numBytes) {
        segment.numBytes += numBytes;
        remove(piece);
        put(segment, piece, numBytes);
    }

    /** Notes that a piece was copied from a segment to the newest; one that was removed meanwhile stays so. */
    synchronized void move(Segment<T> from, Segment<T> to, Piece piece, int numBytes) {
        to.numBytes += numBytes;
        if (places.get(piece) == from) {
            remove(piece);
            put(to, piece, numBytes);
        }
    }

    private void put(Segment<T> segment, Piece piece, int numBytes) {
        segment.wanted.put(piece, numBytes);
        segment.numWantedBytes += numBytes;
        places.put(piece, segment);
    }

    /** Notes that a piece is not wanted any more. */
    synchronized void remove(Piece piece) {
        Segment<T> segment = places.remove(piece);
        if (segment != null) {
            segment.numWantedBytes -= segment.wanted.remove(piece);
        }
    }

    /** The segment of a piece, kept until {@link #leave}; null if it is not there or has another length. */
    synchronized Segment<T> enter(Piece piece, int numBytes) {
        Segment<T> segment = places.get(piece);
        if (segment == null || segment.wanted.get(piece) != numBytes) {
            return null;
        }
        segment.numReaders++;
        return segment;
    }

    /** A reader is done; true if the segment was removed and this was its last: then it is the caller's to let go. */
    synchronized boolean leave(Segment<T> segment) {
        return --segment.numReaders == 0 && segment.isRemoved;
    }

    /** Takes a segment out, with what it has; true if nobody reads it: then it is the caller's to let go. */
    synchronized boolean remove(Segment<T> segment) {
        List.copyOf(segment.wanted.keySet()).forEach(this::remove);
        segments.remove(segment);
        segment.isRemoved = true;
        return segment.numReaders == 0;
    }

    /** What is wanted of a segment, with lengths. */
    synchronized Map<Piece, Integer> wanted(Segment<T> segment) {
        return Map.copyOf(segment.wanted);
    }

    /**
     * The segment that gives most room back for the work of copying; null if none gives any. The newest is left alone.
     *
     * @param maxWantedBytes that would have to be copied
     */
    synchronized Segment<T> leastWanted(long maxWantedBytes) {
        Segment<T> best = null;
        for (int i = 0; i < segments.size() - 1; i++) {
            Segment<T> each = segments.get(i);
            if (each.numWantedBytes <= maxWantedBytes
                    && each.numUnwantedBytes() > 0
                    && (best == null || each.numUnwantedBytes() > best.numUnwantedBytes())) {
                best = each;
            }
        }
        return best;
    }

    /** Bytes of pieces in all segments, wanted or not. */
    synchronized long numBytes() {
        long sum = 0;
        for (Segment<T> segment : segments) {
            sum += segment.numBytes;
        }
        return sum;
    }

    /** All segments, to be let go at the end. */
    synchronized List<Segment<T>> all() {
        return List.copyOf(segments);
    }
}
