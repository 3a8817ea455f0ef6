package io.millrace.prefix;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Which chunks were met before, and which of them the store took: the latest so many. A wrong belief costs a load that misses
 * or a chunk that is stored later than it could be, never an output. Engine thread only.
 */
final class Sightings {
    private final Map<ChunkKey, Boolean> stored; // by key seen: whether the store has it, as far as is known

    Sightings(int maxKeys) {
        stored = new LinkedHashMap<>(16, 0.75f, true) {
            private static final long serialVersionUID = 1;

            @Override
            protected boolean removeEldestEntry(Map.Entry<ChunkKey, Boolean> eldest) {
                return size() > maxKeys;
            }
        };
    }

    /** Notes that a chunk was met; returns whether it had been before. */
    boolean see(ChunkKey key) {
        return stored.putIfAbsent(key, false) != null;
    }

    boolean isStored(ChunkKey key) {
        return stored.getOrDefault(key, false);
    }

    /** Notes what is known of the store. */
    void setStored(ChunkKey key, boolean isStored) {
        stored.put(key, isStored);
    }

    int numKeys() {
        return stored.size();
    }
}
