package io.millrace.backend.cpu;

import java.util.StringJoiner;

/**
 * The row counts at which a matrix product may be called: those whose rows come out with the bits of the anchor count. A
 * step's rows are cut, and the last cut is padded, to counts of this class. Immutable.
 */
final class RowCounts {
    /**
     * Counts that are tried, ascending. Fewer than 4 rows are left out: on an AVX-512 BF16 machine 4 took no longer in nearly
     * all shapes tried, since it is reading the weights that takes the time. {@link SingleRowProducts} are for one row.
     */
    static final int[] CANDIDATES = {4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256};

    /** The count whose bits are the rule. */
    static final int ANCHOR = 64;

    static final int LARGEST = 256;

    private final boolean[] isAccepted;

    /** @param isAccepted per candidate; the anchor must be */
    RowCounts(boolean[] isAccepted) {
        this.isAccepted = isAccepted.clone();
    }

    static int candidateOf(int count) {
        for (int i = 0; i < CANDIDATES.length; i++) {
            if (CANDIDATES[i] == count) {
                return i;
            }
        }
        throw new IllegalArgumentException("row count " + count + " is no candidate");
    }

    boolean accepts(int candidate) {
        return isAccepted[candidate];
    }

    /** The counts that are not accepted, for the log; empty if all are. */
    String refused() {
        StringJoiner refused = new StringJoiner(", ");
        for (int i = 0; i < CANDIDATES.length; i++) {
            if (!isAccepted[i]) {
                refused.add(Integer.toString(CANDIDATES[i]));
            }
        }
        return refused.toString();
    }

    RowCounts and(RowCounts other) {
        boolean[] both = new boolean[CANDIDATES.length];
        for (int i = 0; i < both.length; i++) {
            both[i] = isAccepted[i] && other.isAccepted[i];
        }
        return new RowCounts(both);
    }

    /** The most rows, up to a limit of at least the anchor, that {@link #next} cuts without rounding up. */
    int mostWithoutPadding(int limit) {
        for (int numRows = limit; numRows > ANCHOR; numRows--) {
            int remaining = numRows;
            while (remaining > 0) {
                remaining -= CANDIDATES[next(remaining)];
            }
            if (remaining == 0) {
                return numRows;
            }
        }
        return ANCHOR;
    }

    /**
     * The candidate with which to compute the next of the remaining rows: the smallest that holds all of them if that
     * wastes little, else the largest that they fill.
     */
    int next(int remaining) {
        int fitting = -1;
        for (int i = 0; i < CANDIDATES.length; i++) {
            if (!isAccepted[i]) {
                continue;
            }
            int count = CANDIDATES[i];
            if (count >= remaining) {
                boolean wastesLittle = count - remaining <= Math.max(8, remaining / 8);
                return wastesLittle || fitting < 0 ? i : fitting;
            }
            fitting = i;
        }
        return fitting;
    }
}
