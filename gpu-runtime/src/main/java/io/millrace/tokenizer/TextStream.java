package io.millrace.tokenizer;

import java.util.Arrays;

/**
 * Incremental decoding of one sample's output. Not thread-safe; belongs to the engine thread. The cost of a sample is
 * linear in its tokens.
 *
 * <p>Byte-level vocabularies decode token by token from a table. For all others a token's text depends on its
 * neighbours, so a short window of ids is decoded twice, with and without the new tokens, and the difference is the new
 * text (the prefix offset scheme of text-generation-inference and vLLM).
 */
public final class TextStream {
    /** An incomplete character spans at most three byte tokens; a longer run of U+FFFD is what the text holds. */
    private static final int MAX_HELD_TOKENS = 4;

    /** Tokens without text of their own stay as context no longer than this. */
    private static final int MAX_CONTEXT_TOKENS = 32;

    private final Tokenizer tokenizer;
    private final boolean skipSpecialTokens;
    private final StringBuilder text = new StringBuilder();
    private final Utf8Decoder bytes;
    private int[] window = new int[8];
    private int windowSize;
    private int numShown;
    private int shownLength;

    TextStream(Tokenizer tokenizer, boolean skipSpecialTokens) {
        this.tokenizer = tokenizer;
        this.skipSpecialTokens = skipSpecialTokens;
        this.bytes = tokenizer.byteLevelTokens() == null ? null : new Utf8Decoder(text);
    }

    /** Appends one generated token. Ids outside the vocabulary add nothing. */
    public void append(int tokenId) {
        if (bytes != null) {
            bytes.append(tokenizer.byteLevelTokens().bytes(tokenId, skipSpecialTokens));
            return;
        }
        if (skipSpecialTokens && tokenizer.isSpecial(tokenId)) {
            return;
        }
        if (windowSize == window.length) {
            window = Arrays.copyOf(window, windowSize * 2);
        }
        window[windowSize++] = tokenId;
        String decoded = tokenizer.decode(window, 0, windowSize, skipSpecialTokens);
        boolean incomplete = decoded.endsWith("\uFFFD") && windowSize - numShown < MAX_HELD_TOKENS;
        if (!incomplete) {
            show(decoded);
        }
    }

    /** Adds what the window says beyond its shown tokens; only the tokens just shown stay, as context for the next. */
    private void show(String decoded) {
        if (decoded.length() <= shownLength) {
            numShown = windowSize;
            if (windowSize > MAX_CONTEXT_TOKENS) {
                keepFrom(windowSize / 2);
            }
            return;
        }
        text.append(decoded, shownLength, decoded.length());
        keepFrom(numShown);
    }

    private void keepFrom(int first) {
        windowSize -= first;
        System.arraycopy(window, first, window, 0, windowSize);
        numShown = windowSize;
        shownLength = tokenizer.decode(window, 0, windowSize, skipSpecialTokens).length();
    }

    /** All complete characters so far. A live view: it grows with append. */
    public CharSequence text() {
        return text;
    }

    /** Ends the sample: bytes that never became a character show as U+FFFD. Later appends start afresh. */
    public void finish() {
        if (bytes != null) {
            bytes.finish();
        } else if (windowSize > numShown) {
            show(tokenizer.decode(window, 0, windowSize, skipSpecialTokens));
        }
    }
}
