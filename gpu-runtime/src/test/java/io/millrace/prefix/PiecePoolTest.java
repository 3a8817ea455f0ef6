package io.millrace.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.junit.jupiter.api.Test;

class PiecePoolTest {
    @Test
    void whatWasGivenBackIsUsedAgain() {
        PiecePool pool = new PiecePool(new int[] {10, 20});
        byte[][] first = pool.take();
        assertEquals(2, first.length);
        assertEquals(10, first[0].length);
        assertEquals(20, first[1].length);
        byte[][] second = pool.take();
        assertNotSame(first, second);
        pool.giveBack(first);
        pool.giveBack(second);
        assertSame(second, pool.take());
        assertSame(first, pool.take());
        assertNotSame(first, pool.take());
    }

    @Test
    void arraysOfOtherLengthsAreFresh() {
        PiecePool pool = new PiecePool(new int[] {10, 20});
        byte[][] idle = pool.take();
        pool.giveBack(idle);
        byte[][] other = pool.take(new int[] {10, 21});
        assertEquals(10, other[0].length);
        assertEquals(21, other[1].length);
        assertEquals(1, pool.take(new int[] {10}).length);
        assertSame(idle, pool.take(new int[] {10, 20}));
    }

    @Test
    void whatHasAnotherFormIsLetGo() {
        PiecePool pool = new PiecePool(new int[] {10, 20});
        byte[][][] others = {{new byte[10]}, {new byte[10], null}, {new byte[10], new byte[21]}, {}};
        for (byte[][] other : others) {
            pool.giveBack(other);
            byte[][] taken = pool.take();
            assertNotSame(other, taken);
            assertEquals(20, taken[1].length);
        }
    }

    @Test
    void noMoreThanSomeLieUnused() {
        int chunkBytes = (int) (PiecePool.MAX_IDLE_BYTES / 4);
        PiecePool pool = new PiecePool(new int[] {chunkBytes});
        Set<Object> givenBack = Collections.newSetFromMap(new IdentityHashMap<>());
        byte[] shared = new byte[chunkBytes]; // stands for arrays of five chunks
        for (int i = 0; i < 5; i++) {
            byte[][] pieces = {shared};
            pool.giveBack(pieces);
            givenBack.add(pieces);
        }
        int numReused = 0;
        for (int i = 0; i < 5; i++) {
            numReused += givenBack.contains(pool.take()) ? 1 : 0;
        }
        assertEquals(4, numReused);
    }
}
