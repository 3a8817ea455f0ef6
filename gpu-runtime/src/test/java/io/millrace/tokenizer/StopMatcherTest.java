package io.millrace.tokenizer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class StopMatcherTest {
    @Test
    void findsAStopThatSpansTwoPieces() {
        StopMatcher matcher = new StopMatcher(List.of("###", "\n\n"));
        assertEquals(-1, matcher.find("12 ##", 0));
        assertNull(matcher.matched());
        assertEquals(3, matcher.find("12 ### x", 5));
        assertEquals("###", matcher.matched());
    }

    @Test
    void passesOverMatchesThatEndInTheOldText() {
        StopMatcher matcher = new StopMatcher(List.of("ab"));
        assertEquals(-1, matcher.find("ab c", 2));
        assertEquals(4, matcher.find("ab cab", 2));
    }

    @Test
    void prefersTheEarliestStartThenTheEarliestEnd() {
        StopMatcher matcher = new StopMatcher(List.of("bcd", "abcd", "abc"));
        assertEquals(1, matcher.find("xabcd", 0));
        assertEquals("abc", matcher.matched());
    }

    @Test
    void refusesAnEmptyStop() {
        assertThrows(IllegalArgumentException.class, () -> new StopMatcher(List.of("a", "")));
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5})
    void agreesWithANaiveMatcher(long seed) {
        Random random = new Random(seed);
        for (int round = 0; round < 2000; round++) {
            List<String> stops = new ArrayList<>();
            for (int i = random.nextInt(4); i >= 0; i--) {
                stops.add(randomText(random, 1 + random.nextInt(4)));
            }
            StopMatcher matcher = new StopMatcher(stops);
            StringBuilder text = new StringBuilder();
            for (int piece = 0; piece < 6; piece++) {
                int from = text.length();
                text.append(randomText(random, random.nextInt(5)));
                String[] expectedStop = new String[1];
                int expected = naive(stops, text.toString(), from, expectedStop);
                String where = "seed " + seed + " stops " + stops + " text " + text + " from " + from;
                assertEquals(expected, matcher.find(text, from), where);
                assertEquals(expectedStop[0], matcher.matched(), where);
            }
        }
    }

    private static int naive(List<String> stops, String text, int from, String[] matched) {
        for (int start = 0; start < text.length(); start++) {
            for (int end = Math.max(start, from) + 1; end <= text.length(); end++) {
                if (stops.contains(text.substring(start, end))) {
                    matched[0] = text.substring(start, end);
                    return start;
                }
            }
        }
        return -1;
    }

    private static String randomText(Random random, int length) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < length; i++) {
            text.append((char) ('a' + random.nextInt(2)));
        }
        return text.toString();
    }
}
