package io.millrace.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** The latest keys are remembered, no more. */
class SightingsTest {
    private static ChunkKey key(int number) {
        return new ChunkKey(number, -number);
    }

    @Test
    void aKeyIsSeenBeforeFromTheSecondTimeOn() {
        Sightings sightings = new Sightings(4);
        assertFalse(sightings.see(key(1)));
        assertTrue(sightings.see(key(1)));
        assertFalse(sightings.isStored(key(1)));
        sightings.setStored(key(1), true);
        assertTrue(sightings.see(key(1)));
        assertTrue(sightings.isStored(key(1)));
        sightings.setStored(key(1), false);
        assertFalse(sightings.isStored(key(1)));
        assertEquals(1, sightings.numKeys());
    }

    @Test
    void theLeastRecentlyUsedIsForgotten() {
        Sightings sightings = new Sightings(2);
        sightings.see(key(1));
        sightings.see(key(2));
        assertTrue(sightings.see(key(1)));
        sightings.see(key(3));
        assertEquals(2, sightings.numKeys());
        assertTrue(sightings.see(key(1)));
        assertFalse(sightings.see(key(2)));
    }
}
