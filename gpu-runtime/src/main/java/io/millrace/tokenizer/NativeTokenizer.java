package io.millrace.tokenizer;

import ai.djl.huggingface.tokenizers.jni.LibUtils;
import ai.djl.huggingface.tokenizers.jni.TokenizersLibrary;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * One Rust tokenizer, with truncation and padding off. Thread-safe: calls run at the same time, close waits for them.
 * Speaks to the library's JNI class and not to DJL's HuggingFaceTokenizer, whose constructors report home and which
 * truncates to 512 tokens unless told not to.
 */
final class NativeTokenizer implements AutoCloseable {
    private final Lock use;
    private final Lock release;
    private long handle;

    static {
        // DJL would otherwise look for a GPU, and may fetch another native build for it.
        System.setProperty("ai.djl.offline", "true");
        System.setProperty("OPT_OUT_TRACKING", "true");
        LibUtils.checkStatus();
    }

    /** Throws RuntimeException, with the library's message, when the JSON is no tokenizer. */
    NativeTokenizer(String tokenizerJson) {
        ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
        use = lock.readLock();
        release = lock.writeLock();
        handle = TokenizersLibrary.LIB.createTokenizerFromString(tokenizerJson);
        TokenizersLibrary.LIB.disableTruncation(handle);
        TokenizersLibrary.LIB.disablePadding(handle);
    }

    int[] encode(String text, boolean addSpecialTokens) {
        use.lock();
        try {
            long encoding = TokenizersLibrary.LIB.encode(openHandle(), withoutLoneSurrogates(text), addSpecialTokens);
            try {
                long[] wide = TokenizersLibrary.LIB.getTokenIds(encoding);
                int[] ids = new int[wide.length];
                for (int i = 0; i < ids.length; i++) {
                    ids[i] = Math.toIntExact(wide[i]);
                }
                return ids;
            } finally {
                TokenizersLibrary.LIB.deleteEncoding(encoding);
            }
        } finally {
            use.unlock();
        }
    }

    String decode(int[] ids, int from, int to, boolean skipSpecialTokens) {
        long[] wide = new long[to - from];
        for (int i = from; i < to; i++) {
            wide[i - from] = ids[i];
        }
        use.lock();
        try {
            return TokenizersLibrary.LIB.decode(openHandle(), wide, skipSpecialTokens);
        } finally {
            use.unlock();
        }
    }

    private long openHandle() {
        if (handle == 0) {
            throw new IllegalStateException("the tokenizer is closed");
        }
        return handle;
    }

    /** An unpaired surrogate has no UTF-8 form; as everywhere else it reads as U+FFFD. */
    private static String withoutLoneSurrogates(String text) {
        StringBuilder repaired = null;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (!Character.isSurrogate(c)) {
                continue;
            }
            boolean paired = Character.isHighSurrogate(c)
                    && i + 1 < text.length()
                    && Character.isLowSurrogate(text.charAt(i + 1));
            if (paired) {
                i++;
                continue;
            }
            if (repaired == null) {
                repaired = new StringBuilder(text);
            }
            repaired.setCharAt(i, '\uFFFD');
        }
        return repaired == null ? text : repaired.toString();
    }

    @Override
    public void close() {
        release.lock();
        try {
            if (handle != 0) {
                TokenizersLibrary.LIB.deleteTokenizer(handle);
                handle = 0;
            }
        } finally {
            release.unlock();
        }
    }
}
