package io.millrace.speculation;

import java.util.Arrays;

/**
 * Where each token of a text stands, from the latest place to the earliest: a chain through the places of equal tokens, so that
 * a lookup does not read the whole text. Follows a text that grows at its end.
 */
final class TokenPlaces {
    private static final int MIN_CAPACITY = 64;
    private static final int HASH_MULTIPLIER = 0x9E3779B9; // 2^32 over the golden ratio (Knuth)

    private int[] previous = new int[0]; // by place: the place before it of the same token, or -1
    private int[] keys = new int[MIN_CAPACITY]; // token ids, by open addressing
    private int[] latest = newLatest(MIN_CAPACITY); // their latest places; -1 for a key that is free
    private int numKeys;
    private int numTokens;

    /** Takes in what the text has grown by; the tokens taken in before must be the same. */
    void extend(int[] tokenIds, int newNumTokens) {
        if (newNumTokens > previous.length) {
            previous = Arrays.copyOf(previous, newNumTokens + Math.max(32, newNumTokens / 2));
        }
        for (int place = numTokens; place < newNumTokens; place++) {
            int slot = slot(tokenIds[place]);
            previous[place] = latest[slot];
            if (latest[slot] < 0) {
                keys[slot] = tokenIds[place];
                numKeys++;
            }
            latest[slot] = place;
            if (2 * numKeys > keys.length) {
                grow();
            }
        }
        numTokens = newNumTokens;
    }

    /** The latest place of a token; -1 if it has none. */
    int latest(int tokenId) {
        return latest[slot(tokenId)];
    }

    /** The place before a place with the same token; -1 if there is none. */
    int previous(int place) {
        return previous[place];
    }

    private int slot(int tokenId) {
        int slot = tokenId * HASH_MULTIPLIER >>> Integer.numberOfLeadingZeros(keys.length - 1);
        while (latest[slot] >= 0 && keys[slot] != tokenId) {
            slot = slot + 1 & keys.length - 1;
        }
        return slot;
    }

    private void grow() {
        int[] oldKeys = keys;
        int[] oldLatest = latest;
        keys = new int[2 * oldKeys.length];
        latest = newLatest(keys.length);
        for (int i = 0; i < oldKeys.length; i++) {
            if (oldLatest[i] >= 0) {
                int slot = slot(oldKeys[i]);
                keys[slot] = oldKeys[i];
                latest[slot] = oldLatest[i];
            }
        }
    }

    private static int[] newLatest(int capacity) {
        int[] none = new int[capacity];
        Arrays.fill(none, -1);
        return none;
    }
}
