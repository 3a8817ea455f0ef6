package io.millrace.operators.tier;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.millrace.operators.tier.ChunkIndex.Chunk;
import io.millrace.operators.tier.ChunkIndex.Place;
import io.millrace.prefix.ChunkKey;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ChunkIndexTest {
    private static final long CURRENT = 7;

    private final ChunkIndex index = new ChunkIndex();

    ChunkIndexTest() {
        index.setGeneration(CURRENT);
    }

    private static ChunkKey key(int number) {
        return new ChunkKey(number, 0);
    }

    private Chunk add(int number, Chunk parent, long generation, long access) {
        return index.add(new Place(1, key(number)), parent, 2, 100, generation, access);
    }

    @Test
    void chainsLoseTheirTailsFirstTheLeastRecentlyUsedBeforeTheOthers() {
        Chunk a = add(1, null, CURRENT, 10);
        Chunk b = add(2, a, CURRENT, 10);
        Chunk other = add(3, null, CURRENT, 20);
        assertSame(b, index.nextToEvict(null));
        assertSame(other, index.nextToEvict(b));
        index.touch(b, 30);
        assertSame(other, index.nextToEvict(null));
        index.removeTree(other);
        assertSame(b, index.nextToEvict(null));
        index.removeTree(b);
        assertSame(a, index.nextToEvict(null));
        assertNull(index.nextToEvict(a));
        assertEquals(100, index.numBytes());
    }

    @Test
    void whatNothingCanHitGoesBeforeAnythingElse() {
        Chunk superseded = add(1, null, 6, 99);
        Chunk current = add(2, null, CURRENT, 1);
        assertSame(superseded, index.nextToEvict(null));
        index.setGeneration(6);
        assertSame(current, index.nextToEvict(null));
        index.checkIntegrity();
    }

    @Test
    void aChainIsAsLongAsItsUnbrokenBeginning() {
        Chunk a = add(1, null, CURRENT, 1);
        Chunk b = add(2, a, CURRENT, 1);
        add(3, b, CURRENT, 1);
        List<ChunkKey> chain = List.of(key(1), key(2), key(3), key(4));
        assertEquals(3, index.numLeading(1, chain));
        assertEquals(0, index.numLeading(2, chain), "another affinity key");
        assertEquals(2, index.removeTree(b).size());
        assertEquals(1, index.numLeading(1, chain));
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4})
    void aRandomWalkEvictsAsTheNaiveModelDoes(long seed) {
        Random random = new Random(seed);
        List<Chunk> alive = new ArrayList<>();
        Map<Chunk, Long> access = new HashMap<>();
        long now = 0;
        for (int step = 0; step < 2_000; step++) {
            now++;
            int what = random.nextInt(10);
            if (what < 5 || alive.isEmpty()) {
                Chunk parent =
                        alive.isEmpty() || random.nextInt(4) == 0 ? null : alive.get(random.nextInt(alive.size()));
                Chunk chunk = add(step + 1, parent, random.nextInt(5) == 0 ? 6 : CURRENT, now);
                alive.add(chunk);
                for (Chunk c = chunk; c != null; c = c.parent) {
                    access.put(c, now);
                }
                index.touch(chunk, now);
            } else if (what < 8) {
                Chunk used = alive.get(random.nextInt(alive.size()));
                index.touch(used, now);
                for (Chunk c = used; c != null; c = c.parent) {
                    access.put(c, now);
                }
            } else {
                Chunk expected = naive(alive, access);
                assertSame(expected, index.nextToEvict(null), "seed " + seed + " step " + step);
                assertEquals(List.of(expected), index.removeTree(expected));
                alive.remove(expected);
            }
            index.checkIntegrity();
            assertEquals(alive.size(), index.numChunks(), "seed " + seed);
        }
    }

    /** The tail of another generation, else of the oldest use, the deepest among equals. */
    private static Chunk naive(List<Chunk> alive, Map<Chunk, Long> access) {
        Chunk best = null;
        for (Chunk candidate : alive) {
            if (alive.stream().anyMatch(c -> c.parent == candidate)) {
                continue;
            }
            if (best == null || before(candidate, best, access)) {
                best = candidate;
            }
        }
        return best;
    }

    private static boolean before(Chunk a, Chunk b, Map<Chunk, Long> access) {
        if ((a.generation == CURRENT) != (b.generation == CURRENT)) {
            return a.generation != CURRENT;
        }
        if (!access.get(a).equals(access.get(b))) {
            return access.get(a) < access.get(b);
        }
        return a.position > b.position;
    }
}
