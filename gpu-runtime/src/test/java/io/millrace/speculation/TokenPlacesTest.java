package io.millrace.speculation;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class TokenPlacesTest {
    @Test
    void everyPlaceLeadsToTheOneBeforeIt() {
        for (long seed = 0; seed < 50; seed++) {
            Random random = new Random(seed);
            int bound = 1 << random.nextInt(18);
            int[] ids = random.ints(1 + random.nextInt(3000), 0, bound).toArray();
            TokenPlaces places = new TokenPlaces();
            int[] latest = new int[bound];
            Arrays.fill(latest, -1);
            for (int numTokens = 0; numTokens < ids.length; ) {
                int next = Math.min(ids.length, numTokens + 1 + random.nextInt(random.nextBoolean() ? 3 : 800));
                places.extend(ids, next);
                for (int place = numTokens; place < next; place++) {
                    assertEquals(latest[ids[place]], places.previous(place), "seed " + seed + ", place " + place);
                    latest[ids[place]] = place;
                }
                numTokens = next;
                for (int tokenId = 0; tokenId < Math.min(bound, 2000); tokenId++) {
                    assertEquals(latest[tokenId], places.latest(tokenId), "seed " + seed + ", token " + tokenId);
                }
            }
        }
    }
}
