package io.millrace.tokenizer.template;

import java.util.BitSet;

/**
 * A text that knows of each of its characters whether the chat template wrote it or it came in as data (a message, a
 * role). Immutable; any thread. The string operations of templates work on it and carry the marks along, which is how
 * a rendered prompt tells a template's control token from a look-alike in a message.
 */
public final class MarkedText {
    public static final MarkedText EMPTY = new MarkedText("", new BitSet());

    private final String chars;
    private final BitSet data;

    private MarkedText(String chars, BitSet data) {
        this.chars = chars;
        this.data = data;
    }

    /** A text that the template wrote. */
    public static MarkedText template(String chars) {
        return new MarkedText(chars, new BitSet());
    }

    /** A text that came in from outside. */
    public static MarkedText data(String chars) {
        BitSet all = new BitSet(chars.length());
        all.set(0, chars.length());
        return new MarkedText(chars, all);
    }

    public int length() {
        return chars.length();
    }

    public boolean isEmpty() {
        return chars.isEmpty();
    }

    public boolean isTemplate(int index) {
        return !data.get(index);
    }

    /** Whether any character is data. */
    public boolean hasData() {
        return !data.isEmpty();
    }

    /** The end of the run of equally marked characters that starts at index. */
    public int endOfRun(int index) {
        int end = data.get(index) ? data.nextClearBit(index) : data.nextSetBit(index);
        return end < 0 ? chars.length() : Math.min(end, chars.length());
    }

    public MarkedText substring(int from, int to) {
        return from == 0 && to == chars.length() ? this : new MarkedText(chars.substring(from, to), data.get(from, to));
    }

    public MarkedText plus(MarkedText other) {
        if (other.isEmpty()) {
            return this;
        }
        return isEmpty() ? other : new Builder().append(this).append(other).build();
    }

    /** The same marks over other characters when the lengths agree; else all of it is data if any of this was. */
    public MarkedText withCharacters(String others) {
        if (others.length() == chars.length()) {
            return new MarkedText(others, data);
        }
        return hasData() ? data(others) : template(others);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof MarkedText && chars.equals(((MarkedText) other).chars);
    }

    @Override
    public int hashCode() {
        return chars.hashCode();
    }

    /** The characters alone. */
    @Override
    public String toString() {
        return chars;
    }

    /** Collects marked pieces. Not thread-safe. */
    public static final class Builder {
        private final StringBuilder chars = new StringBuilder();
        private final BitSet data = new BitSet();

        public Builder append(MarkedText text) {
            int offset = chars.length();
            chars.append(text.chars);
            for (int from = text.data.nextSetBit(0); from >= 0; ) {
                int to = text.data.nextClearBit(from);
                data.set(offset + from, offset + to);
                from = text.data.nextSetBit(to);
            }
            return this;
        }

        public int length() {
            return chars.length();
        }

        public MarkedText build() {
            return new MarkedText(chars.toString(), (BitSet) data.clone());
        }
    }
}
