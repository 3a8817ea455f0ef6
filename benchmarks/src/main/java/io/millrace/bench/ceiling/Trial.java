package io.millrace.bench.ceiling;

import java.util.ArrayList;
import java.util.List;

/** Looks for the fastest of several ways to compute the same. Owns the fastest one so far, and closes the others. One thread. */
final class Trial<P extends Pass> {
    private final int numTries;
    private final List<Tried> tried = new ArrayList<>();
    private P fastest;
    private double fastestSeconds = Double.POSITIVE_INFINITY;

    /** @param numTries of each way, of which the fastest counts */
    Trial(int numTries) {
        this.numTries = numTries;
    }

    /** Tries a way; it is the trial's from here on. */
    void add(P pass) {
        double seconds = bestSeconds(pass, numTries);
        tried.add(new Tried(pass.describe(), seconds));
        if (seconds < fastestSeconds) {
            if (fastest != null) {
                fastest.close();
            }
            fastest = pass;
            fastestSeconds = seconds;
        } else {
            pass.close();
        }
    }

    static double bestSeconds(Pass pass, int numTries) {
        double best = Double.POSITIVE_INFINITY;
        for (int i = 0; i < numTries; i++) {
            best = Math.min(best, pass.seconds());
        }
        return best;
    }

    /** The fastest of those tried, of which there is one; it is the caller's from here on. */
    P fastest() {
        return fastest;
    }

    List<Tried> tried() {
        return List.copyOf(tried);
    }
}
