package io.millrace.bench.scenario;

import java.util.List;

/**
 * Static batching: requests are served in groups of as many as there are slots, in order, and every row of a group is computed
 * until its longest output ends. Finished rows are computed for nothing, and nobody takes their place.
 */
final class StaticBatching {
    private StaticBatching() {}

    /** Cuts the output lengths into groups, in order. */
    static List<List<Integer>> groups(List<Integer> lengths, int numSlots) {
        List<List<Integer>> groups = new java.util.ArrayList<>();
        for (int start = 0; start < lengths.size(); start += numSlots) {
            groups.add(lengths.subList(start, Math.min(lengths.size(), start + numSlots)));
        }
        return groups;
    }

    static int longest(List<Integer> group) {
        return group.stream().mapToInt(Integer::intValue).max().orElse(0);
    }

    /** Steps in all: a group's prompts are computed in the step that draws its first tokens. */
    static long numSteps(List<Integer> lengths, int numSlots) {
        return groups(lengths, numSlots).stream()
                .mapToLong(StaticBatching::longest)
                .sum();
    }
}
