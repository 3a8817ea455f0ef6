package io.millrace.tokenizer;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The bytes of each token of a byte-level vocabulary (GPT-2's: every byte is written as one printable character).
 * Immutable after opening; any thread.
 */
final class ByteLevelTokens {
    private static final byte[] NOTHING = {};
    private static final int[] BYTE_OF_CHARACTER = byteOfCharacter();

    private final byte[][] bytesById;
    private final boolean[] special;

    ByteLevelTokens(int vocabSize) {
        bytesById = new byte[vocabSize][];
        Arrays.fill(bytesById, NOTHING);
        special = new boolean[vocabSize];
    }

    void put(int id, String token, boolean isSpecial) {
        bytesById[id] = bytesOf(token);
        special[id] = isSpecial;
    }

    byte[] bytes(int id, boolean skipSpecialTokens) {
        boolean absent = id < 0 || id >= bytesById.length || skipSpecialTokens && special[id];
        return absent ? NOTHING : bytesById[id];
    }

    /** A token with a character outside the byte alphabet, as added tokens may have, stands for its own UTF-8. */
    private static byte[] bytesOf(String token) {
        byte[] bytes = new byte[token.length()];
        for (int i = 0; i < bytes.length; i++) {
            char c = token.charAt(i);
            if (c >= BYTE_OF_CHARACTER.length || BYTE_OF_CHARACTER[c] < 0) {
                return token.getBytes(StandardCharsets.UTF_8);
            }
            bytes[i] = (byte) BYTE_OF_CHARACTER[c];
        }
        return bytes;
    }

    private static int[] byteOfCharacter() {
        int[] table = new int[512];
        Arrays.fill(table, -1);
        int next = 256;
        for (int b = 0; b < 256; b++) {
            boolean printable = b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE;
            table[printable ? b : next++] = b;
        }
        return table;
    }
}
