package io.millrace.connect.json;

import java.util.Collection;
import java.util.Locale;
import java.util.Optional;

/**
 * Finds the known name that a misspelt one most likely meant: the smallest optimal string alignment distance
 * (insertions, deletions, substitutions, swaps of neighbours), at most a third of the name's length. Stateless; any
 * thread.
 */
public final class NearestName {
    private static final int MAX_NAME_CHARS = 64;

    private NearestName() {}

    /** The nearest candidate, the first of equals in iteration order; empty when none is near. */
    public static Optional<String> of(String name, Collection<String> candidates) {
        if (name.isEmpty() || name.length() > MAX_NAME_CHARS) {
            return Optional.empty();
        }
        String wanted = normalised(name);
        String best = null;
        int bestDistance = Math.max(1, name.length() / 3) + 1;
        for (String candidate : candidates) {
            int distance = distance(wanted, normalised(candidate));
            if (distance < bestDistance) {
                best = candidate;
                bestDistance = distance;
            }
        }
        return Optional.ofNullable(best);
    }

    /** topP, top-p and Top_P all mean top_p. */
    private static String normalised(String name) {
        return name.replace("_", "").replace("-", "").toLowerCase(Locale.ROOT);
    }

    /** How many edits lie between two names, as they are written. */
    public static int distance(String a, String b) {
        int[] beforeLast = new int[b.length() + 1];
        int[] last = new int[b.length() + 1];
        int[] current = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            last[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            current[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                boolean same = a.charAt(i - 1) == b.charAt(j - 1);
                int cost = Math.min(Math.min(current[j - 1], last[j]) + 1, last[j - 1] + (same ? 0 : 1));
                if (i > 1 && j > 1 && a.charAt(i - 1) == b.charAt(j - 2) && a.charAt(i - 2) == b.charAt(j - 1)) {
                    cost = Math.min(cost, beforeLast[j - 2] + 1);
                }
                current[j] = cost;
            }
            int[] recycled = beforeLast;
            beforeLast = last;
            last = current;
            current = recycled;
        }
        return last[b.length()];
    }
}
