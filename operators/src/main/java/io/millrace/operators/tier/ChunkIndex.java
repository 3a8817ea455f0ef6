package io.millrace.operators.tier;

import io.millrace.prefix.ChunkKey;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.UUID;

/**
 * Which chunks a subtask holds, as trees of chains, and which of them goes first when room is needed: keyed state cannot be
 * asked across keys. Chains lose their tails first, since a chunk without those before it is of no use; among tails those
 * of another generation (numeric fingerprint, policy version) go first, then the least recently used. About 200 bytes of
 * heap a chunk. One thread.
 */
final class ChunkIndex {
    private static final Comparator<Chunk> EVICTION_ORDER = Comparator.comparingLong((Chunk c) -> c.lastAccessMillis)
            .thenComparing(Comparator.comparingInt((Chunk c) -> c.position).reversed())
            .thenComparingLong(c -> c.place.affinityKey)
            .thenComparingLong(c -> c.place.key.high())
            .thenComparingLong(c -> c.place.key.low());

    private final Map<Place, Chunk> chunks = new HashMap<>();
    private final TreeSet<Chunk> supersededTails = new TreeSet<>(EVICTION_ORDER);
    private final TreeSet<Chunk> currentTails = new TreeSet<>(EVICTION_ORDER);
    private long generation;
    private long numBytes;

    /** Where a chunk lies: prefixes that are hot lie under several affinity keys. */
    record Place(long affinityKey, ChunkKey key) {}

    /** A stored chunk. */
    static final class Chunk {
        final Place place;
        final Chunk parent; // null for the first of a chain
        final int position;
        final int numPieces;
        final long numBytes;
        final long generation;
        private final List<Chunk> children = new ArrayList<>(1);
        private long lastAccessMillis;
        private long persistedAccessMillis;
        private boolean delivered;

        private Chunk(
                Place place, Chunk parent, int position, int numPieces, long numBytes, long generation, long access) {
            this.place = place;
            this.parent = parent;
            this.position = position;
            this.numPieces = numPieces;
            this.numBytes = numBytes;
            this.generation = generation;
            this.lastAccessMillis = access;
            this.persistedAccessMillis = access;
        }

        long lastAccessMillis() {
            return lastAccessMillis;
        }

        /** How far the access time in state is behind. */
        long unpersistedMillis() {
            return lastAccessMillis - persistedAccessMillis;
        }

        void accessPersisted() {
            persistedAccessMillis = lastAccessMillis;
        }

        /** Whether its pieces were handed out since it was written or restored. */
        boolean isDelivered() {
            return delivered;
        }

        void setDelivered() {
            delivered = true;
        }
    }

    /** A number for what KV is computed with. */
    static long generation(String numericFingerprint, long policyVersion) {
        String name = numericFingerprint + " " + policyVersion;
        return UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8)).getMostSignificantBits();
    }

    /** Chunks of other generations are evicted first from now on. */
    void setGeneration(long current) {
        if (current == generation) {
            return;
        }
        generation = current;
        List<Chunk> tails = new ArrayList<>(supersededTails);
        tails.addAll(currentTails);
        supersededTails.clear();
        currentTails.clear();
        tails.forEach(tail -> tails(tail).add(tail));
    }

    long generation() {
        return generation;
    }

    /** The chunk there, or null. */
    Chunk get(long affinityKey, ChunkKey key) {
        return chunks.get(new Place(affinityKey, key));
    }

    /** How many of a chain's leading chunks are there. */
    int numLeading(long affinityKey, List<ChunkKey> chain) {
        int n = 0;
        while (n < chain.size() && get(affinityKey, chain.get(n)) != null) {
            n++;
        }
        return n;
    }

    /** Adds a chunk behind its parent; null for the first of a chain. */
    Chunk add(Place place, Chunk parent, int numPieces, long bytes, long generation, long accessMillis) {
        int position = parent == null ? 0 : parent.position + 1;
        Chunk chunk = new Chunk(place, parent, position, numPieces, bytes, generation, accessMillis);
        if (chunks.putIfAbsent(place, chunk) != null) {
            throw new IllegalStateException("chunk " + place + " is there already");
        }
        if (parent != null) {
            if (parent.children.isEmpty()) {
                tails(parent).remove(parent);
            }
            parent.children.add(chunk);
        }
        tails(chunk).add(chunk);
        numBytes += bytes;
        return chunk;
    }

    /** The chunk and all before it in its chain were used. */
    void touch(Chunk chunk, long nowMillis) {
        for (Chunk c = chunk; c != null; c = c.parent) {
            boolean tail = c.children.isEmpty() && tails(c).remove(c);
            c.lastAccessMillis = Math.max(c.lastAccessMillis, nowMillis);
            if (tail) {
                tails(c).add(c);
            }
        }
    }

    /** Takes out a chunk and all behind it, which are of no use without it; tails first. */
    List<Chunk> removeTree(Chunk chunk) {
        List<Chunk> removed = new ArrayList<>();
        removed.add(chunk);
        for (int i = 0; i < removed.size(); i++) {
            removed.addAll(removed.get(i).children);
        }
        java.util.Collections.reverse(removed);
        removed.forEach(this::removeTail);
        return removed;
    }

    private void removeTail(Chunk chunk) {
        chunks.remove(chunk.place);
        tails(chunk).remove(chunk);
        numBytes -= chunk.numBytes;
        if (chunk.parent != null) {
            chunk.parent.children.remove(chunk);
            if (chunk.parent.children.isEmpty()) {
                tails(chunk.parent).add(chunk.parent);
            }
        }
    }

    /**
     * The tail to evict next, or null if there is none.
     *
     * @param kept not this one, which a chunk is about to be written behind; may be null
     */
    Chunk nextToEvict(Chunk kept) {
        for (TreeSet<Chunk> tails : List.of(supersededTails, currentTails)) {
            for (Chunk tail : tails) {
                if (tail != kept) {
                    return tail;
                }
            }
        }
        return null;
    }

    /** A tail that was last used before then, or null. */
    Chunk lastUsedBefore(long millis) {
        for (TreeSet<Chunk> tails : List.of(supersededTails, currentTails)) {
            if (!tails.isEmpty() && tails.first().lastAccessMillis < millis) {
                return tails.first();
            }
        }
        return null;
    }

    int numChunks() {
        return chunks.size();
    }

    long numBytes() {
        return numBytes;
    }

    private TreeSet<Chunk> tails(Chunk chunk) {
        return chunk.generation == generation ? currentTails : supersededTails;
    }

    /** Verifies that tails, links and sums agree; for tests. */
    void checkIntegrity() {
        long bytes = 0;
        int numTails = 0;
        for (Chunk chunk : chunks.values()) {
            bytes += chunk.numBytes;
            boolean tail = chunk.children.isEmpty();
            numTails += tail ? 1 : 0;
            if (tail != tails(chunk).contains(chunk)) {
                throw new IllegalStateException("chunk " + chunk.place + " has " + chunk.children.size()
                        + " children and is " + (tail ? "not " : "") + "among the tails");
            }
            if (chunk.parent != null && chunks.get(chunk.parent.place) != chunk.parent) {
                throw new IllegalStateException("the parent of chunk " + chunk.place + " is gone");
            }
        }
        if (bytes != numBytes || numTails != currentTails.size() + supersededTails.size()) {
            throw new IllegalStateException(chunks.size() + " chunks of " + bytes + " bytes with " + numTails
                    + " tails, and " + numBytes + " bytes and "
                    + (currentTails.size() + supersededTails.size()) + " tails are noted");
        }
    }
}
