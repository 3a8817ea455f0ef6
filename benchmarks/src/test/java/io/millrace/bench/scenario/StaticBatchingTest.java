package io.millrace.bench.scenario;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class StaticBatchingTest {
    @Test
    void everyGroupRunsUntilItsLongestEnds() {
        List<Integer> lengths = List.of(16, 256, 100, 40, 50, 60, 7);
        assertEquals(
                List.of(List.of(16, 256, 100), List.of(40, 50, 60), List.of(7)), StaticBatching.groups(lengths, 3));
        assertEquals(256 + 60 + 7, StaticBatching.numSteps(lengths, 3));
        assertEquals(16 + 256 + 100 + 40 + 50 + 60 + 7, StaticBatching.numSteps(lengths, 1));
        assertEquals(256, StaticBatching.numSteps(lengths, 64));
        assertEquals(0, StaticBatching.numSteps(List.of(), 64));
    }

    /** Row by row: a row counts its steps down, and the group ends when the last has. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5})
    void agreesWithASimulation(long seed) {
        Random random = new Random(seed);
        List<Integer> lengths = new ArrayList<>();
        int count = 1 + random.nextInt(200);
        for (int i = 0; i < count; i++) {
            lengths.add(16 + random.nextInt(241));
        }
        int numSlots = 1 + random.nextInt(70);
        long steps = 0;
        for (int first = 0; first < count; first += numSlots) {
            int[] left = lengths.subList(first, Math.min(count, first + numSlots)).stream()
                    .mapToInt(Integer::intValue)
                    .toArray();
            boolean running = true;
            while (running) {
                steps++;
                running = false;
                for (int row = 0; row < left.length; row++) {
                    running |= --left[row] > 0;
                }
            }
        }
        assertEquals(steps, StaticBatching.numSteps(lengths, numSlots), "seed " + seed);
    }
}
