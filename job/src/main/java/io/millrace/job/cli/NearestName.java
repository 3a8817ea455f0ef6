package io.millrace.job.cli;

import java.util.Collection;
import java.util.Comparator;
import java.util.Locale;
import java.util.Optional;

/** Finds the name somebody probably meant: the one with the smallest edit distance, if that is small enough. */
final class NearestName {

    private NearestName() {}

    /** Names that differ in more than this share of their letters do not resemble each other. */
    private static final double MAX_RELATIVE_DISTANCE = 0.5;

    /** The nearest candidate, empty where none resembles the given name. */
    static Optional<String> of(String given, Collection<String> candidates) {
        String name = normalise(given);
        return candidates.stream()
                .min(Comparator.comparingDouble((String candidate) -> relativeDistance(name, normalise(candidate)))
                        .thenComparing(Comparator.naturalOrder()))
                .filter(candidate -> relativeDistance(name, normalise(candidate)) <= MAX_RELATIVE_DISTANCE
                        || startsAlike(name, normalise(candidate)));
    }

    private static double relativeDistance(String name, String candidate) {
        return distance(name, candidate) / (double) Math.max(1, Math.max(name.length(), candidate.length()));
    }

    private static boolean startsAlike(String name, String candidate) {
        return name.length() >= 3
                && candidate.length() >= 3
                && (candidate.startsWith(name) || name.startsWith(candidate));
    }

    private static String normalise(String name) {
        return name.toLowerCase(Locale.ROOT).replace('_', '-').replaceFirst("^-+", "");
    }

    /** Levenshtein's distance. */
    static int distance(String a, String b) {
        int[] previous = new int[b.length() + 1];
        int[] current = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            previous[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            current[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int substituted = previous[j - 1] + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                current[j] = Math.min(substituted, Math.min(previous[j], current[j - 1]) + 1);
            }
            int[] swap = previous;
            previous = current;
            current = swap;
        }
        return previous[b.length()];
    }
}
