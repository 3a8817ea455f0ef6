package io.millrace.tokenizer;

/**
 * Incremental UTF-8 decoding: bytes in, whole characters out, with one U+FFFD for each maximal ill-formed part (the
 * practice of Unicode 3.9 and of Rust's from_utf8_lossy; the JDK's own decoder counts encoded surrogates differently).
 * Not thread-safe.
 */
final class Utf8Decoder {
    private static final char REPLACEMENT = '\uFFFD';

    private final StringBuilder out;
    private int codePoint;
    private int numMissing;
    private int lowest = 0x80;
    private int highest = 0xBF;

    Utf8Decoder(StringBuilder out) {
        this.out = out;
    }

    void append(byte[] bytes) {
        for (byte b : bytes) {
            append(b & 0xFF);
        }
    }

    private void append(int b) {
        if (numMissing == 0) {
            lead(b);
            return;
        }
        if (b < lowest || b > highest) {
            out.append(REPLACEMENT);
            reset();
            lead(b);
            return;
        }
        lowest = 0x80;
        highest = 0xBF;
        codePoint = codePoint << 6 | b & 0x3F;
        if (--numMissing == 0) {
            out.appendCodePoint(codePoint);
            reset();
        }
    }

    /** Starts a character. The bounds of its second byte exclude overlong forms, surrogates and > U+10FFFF. */
    private void lead(int b) {
        if (b < 0x80) {
            out.append((char) b);
        } else if (b >= 0xC2 && b <= 0xDF) {
            numMissing = 1;
            codePoint = b & 0x1F;
        } else if (b >= 0xE0 && b <= 0xEF) {
            numMissing = 2;
            codePoint = b & 0x0F;
            lowest = b == 0xE0 ? 0xA0 : 0x80;
            highest = b == 0xED ? 0x9F : 0xBF;
        } else if (b >= 0xF0 && b <= 0xF4) {
            numMissing = 3;
            codePoint = b & 0x07;
            lowest = b == 0xF0 ? 0x90 : 0x80;
            highest = b == 0xF4 ? 0x8F : 0xBF;
        } else {
            out.append(REPLACEMENT);
        }
    }

    /** Flushes an incomplete character as U+FFFD. */
    void finish() {
        if (numMissing > 0) {
            out.append(REPLACEMENT);
            reset();
        }
    }

    private void reset() {
        numMissing = 0;
        codePoint = 0;
        lowest = 0x80;
        highest = 0xBF;
    }
}
