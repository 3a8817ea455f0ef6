package io.millrace.kvcache;

import java.util.Arrays;

/** Ids below a capacity in an order, each at most once: doubly linked through arrays, so that every step is O(1). */
final class FreeList {
    static final int NONE = -1;

    private static final int ABSENT = -2;

    private final int[] previous;
    private final int[] next; // ABSENT for ids that are not in the list
    private int first = NONE;
    private int last = NONE;
    private int size;

    FreeList(int capacity) {
        previous = new int[capacity];
        next = new int[capacity];
        Arrays.fill(next, ABSENT);
    }

    int size() {
        return size;
    }

    /** The first id, or NONE. */
    int first() {
        return first;
    }

    /** The last id, or NONE. */
    int last() {
        return last;
    }

    /** The id after one that is in the list, or NONE. */
    int after(int id) {
        return next[id];
    }

    /** The id before one that is in the list, or NONE. */
    int before(int id) {
        return previous[id];
    }

    boolean contains(int id) {
        return next[id] != ABSENT;
    }

    void addFirst(int id) {
        previous[id] = NONE;
        next[id] = first;
        if (first == NONE) {
            last = id;
        } else {
            previous[first] = id;
        }
        first = id;
        size++;
    }

    void addLast(int id) {
        next[id] = NONE;
        previous[id] = last;
        if (last == NONE) {
            first = id;
        } else {
            next[last] = id;
        }
        last = id;
        size++;
    }

    void remove(int id) {
        int before = previous[id];
        int after = next[id];
        if (before == NONE) {
            first = after;
        } else {
            next[before] = after;
        }
        if (after == NONE) {
            last = before;
        } else {
            previous[after] = before;
        }
        next[id] = ABSENT;
        size--;
    }
}
