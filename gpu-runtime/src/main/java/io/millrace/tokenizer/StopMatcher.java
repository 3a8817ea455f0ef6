package io.millrace.tokenizer;

import java.util.List;

/**
 * Finds stop texts in a text that grows at its end, across the borders of the pieces it grows by. Owned by one sample;
 * not thread-safe. Each call looks only at the characters that a new match can touch, so a sample's calls cost
 * time linear in its text.
 */
public final class StopMatcher {
    private final List<String> stops;
    private String matched;

    /** Throws IllegalArgumentException for an empty stop text, which would match everywhere. */
    public StopMatcher(List<String> stops) {
        this.stops = List.copyOf(stops);
        for (int i = 0; i < this.stops.size(); i++) {
            if (this.stops.get(i).isEmpty()) {
                throw new IllegalArgumentException(
                        "stop[" + i + "] is empty; a stop text needs at least one character: remove it");
            }
        }
    }

    /**
     * Returns where the earliest match starts among those that end beyond the first fromLength characters, or -1.
     * Among matches that start together the one that ends first wins.
     */
    public int find(CharSequence text, int fromLength) {
        matched = null;
        int bestStart = -1;
        for (String stop : stops) {
            int first = Math.max(0, fromLength - stop.length() + 1);
            int last = text.length() - stop.length();
            if (bestStart >= 0) {
                last = Math.min(last, bestStart);
            }
            for (int start = first; start <= last; start++) {
                if (!matchesAt(text, start, stop)) {
                    continue;
                }
                if (bestStart < 0 || start < bestStart || stop.length() < matched.length()) {
                    bestStart = start;
                    matched = stop;
                }
                break;
            }
        }
        return bestStart;
    }

    /** The stop text that the last find matched; null when it matched none. */
    public String matched() {
        return matched;
    }

    private static boolean matchesAt(CharSequence text, int start, String stop) {
        for (int i = 0; i < stop.length(); i++) {
            if (text.charAt(start + i) != stop.charAt(i)) {
                return false;
            }
        }
        return true;
    }
}
