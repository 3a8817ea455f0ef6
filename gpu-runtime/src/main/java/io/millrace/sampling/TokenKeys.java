package io.millrace.sampling;

/**
 * Logit and token id packed into one long, so that the natural order of longs is the order of truncation: the higher
 * logit is greater, and of equal logits the lower id. All keys of a row differ.
 *
 * <p>The selections are quickselect (Hoare's FIND) with the median of three as pivot: linear on average, in place, and a
 * pure function of the keys' order.
 */
final class TokenKeys {
    private static final int MAX_SORTED_BY_INSERTION = 24;

    private TokenKeys() {}

    static long key(float logit, int tokenId) {
        int bits = Float.floatToRawIntBits(logit + 0f); // -0 becomes +0: they are equal logits
        int ordered = bits ^ (bits >> 31 & 0x7fffffff);
        return (long) ordered << 32 | ~tokenId & 0xFFFFFFFFL;
    }

    static int tokenId(long key) {
        return ~(int) key;
    }

    static float logit(long key) {
        int ordered = (int) (key >> 32);
        return Float.intBitsToFloat(ordered ^ (ordered >> 31 & 0x7fffffff));
    }

    /** Puts the greatest key at from, and so on down to to - 1. For few keys. */
    static void sortDescending(long[] keys, int from, int to) {
        for (int i = from + 1; i < to; i++) {
            long key = keys[i];
            int j = i;
            for (; j > from && keys[j - 1] < key; j--) {
                keys[j] = keys[j - 1];
            }
            keys[j] = key;
        }
    }

    /** Moves the numKept greatest of keys[0 … numKeys) to the front, the least of them last. */
    static void selectGreatest(long[] keys, int numKeys, int numKept) {
        int from = 0;
        int to = numKeys;
        int index = numKept - 1;
        while (to - from > MAX_SORTED_BY_INSERTION) {
            int pivot = partition(keys, from, to);
            if (pivot == index) {
                return;
            }
            if (pivot < index) {
                from = pivot + 1;
            } else {
                to = pivot;
            }
        }
        sortDescending(keys, from, to);
    }

    /**
     * Moves the shortest run of greatest keys whose weights sum to at least the target to the front.
     *
     * @param weights by token id
     * @return how many keys that are; all of them when their weights do not reach the target
     */
    static int selectMass(long[] keys, int numKeys, float[] weights, double target) {
        double missing = target;
        int from = 0;
        int to = numKeys;
        while (to - from > MAX_SORTED_BY_INSERTION) {
            int pivot = partition(keys, from, to);
            double massAbove = 0;
            for (int i = from; i < pivot; i++) {
                massAbove += weights[tokenId(keys[i])];
            }
            if (massAbove >= missing) {
                to = pivot;
            } else {
                missing -= massAbove + weights[tokenId(keys[pivot])];
                from = pivot + 1;
                if (missing <= 0) {
                    return from;
                }
            }
        }
        sortDescending(keys, from, to);
        while (from < to && missing > 0) {
            missing -= weights[tokenId(keys[from])];
            from++;
        }
        return from;
    }

    /** Partitions descending around the median of the first, middle and last key; gives the pivot's place. */
    private static int partition(long[] keys, int from, int to) {
        int last = to - 1;
        int middle = (from + last) >>> 1;
        if (keys[middle] > keys[from]) {
            swap(keys, middle, from);
        }
        if (keys[last] > keys[from]) {
            swap(keys, last, from);
        }
        if (keys[middle] > keys[last]) {
            swap(keys, middle, last);
        }
        long pivot = keys[last];
        int place = from;
        for (int i = from; i < last; i++) {
            long key = keys[i];
            keys[i] = keys[place];
            keys[place] = key;
            place += key > pivot ? 1 : 0;
        }
        swap(keys, place, last);
        return place;
    }

    private static void swap(long[] keys, int i, int j) {
        long key = keys[i];
        keys[i] = keys[j];
        keys[j] = key;
    }
}
