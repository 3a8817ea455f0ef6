package io.millrace.tokenizer;

import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/** Placeholder until part D lands. */
public final class Tokenizer implements AutoCloseable {
    public static Optional<Tokenizer> open(Path modelDirectory) {
        throw new UnsupportedOperationException();
    }

    public int[] encode(String text, boolean addSpecialTokens, boolean parseSpecialTokens) {
        throw new UnsupportedOperationException();
    }

    public boolean containsSpecialTokenText(String text) {
        throw new UnsupportedOperationException();
    }

    public boolean hasChatTemplate() {
        throw new UnsupportedOperationException();
    }

    public int[] encodeChat(List<ChatMessage> messages) {
        throw new UnsupportedOperationException();
    }

    public String decode(int[] ids, boolean skipSpecialTokens) {
        throw new UnsupportedOperationException();
    }

    public int vocabSize() {
        throw new UnsupportedOperationException();
    }

    @Override
    public void close() {}
}
