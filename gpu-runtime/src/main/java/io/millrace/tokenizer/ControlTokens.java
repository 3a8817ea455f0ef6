package io.millrace.tokenizer;

import io.millrace.tokenizer.template.MarkedText;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The tokens that steer a model, and their stand-ins. In the guarded tokenizer each control token answers to a stand-in
 * text instead of its own, so the token's own text is ordinary text there, and only who knows the stand-in can write
 * the token. A stand-in holds random private-use characters drawn when the tokenizer is opened: no prompt can name it.
 * Immutable; any thread.
 */
final class ControlTokens {
    /**
     * One control token.
     *
     * @param normalized whether the library looks for it after the text was normalised, that is after the others
     * @param singleWord whether it counts only when no letter or digit touches it
     */
    record ControlToken(String text, int id, boolean normalized, boolean singleWord, String standIn) {}

    private static final int NUM_NONCE_CHARACTERS = 8;
    private static final int FIRST_PRIVATE_CHARACTER = 0xF0000;
    private static final int NUM_PRIVATE_CHARACTERS = 0xFFFD;

    private final List<ControlToken> tokens = new ArrayList<>();
    private final Map<Character, List<ControlToken>> verbatimByFirst = new HashMap<>();
    private final Map<Character, List<ControlToken>> normalizedByFirst = new HashMap<>();
    private final String nonce;

    ControlTokens() {
        SecureRandom random = new SecureRandom();
        StringBuilder drawn = new StringBuilder();
        for (int i = 0; i < NUM_NONCE_CHARACTERS; i++) {
            drawn.appendCodePoint(FIRST_PRIVATE_CHARACTER + random.nextInt(NUM_PRIVATE_CHARACTERS));
        }
        nonce = drawn.toString();
    }

    /** Registers a token; called only while the tokenizer is being opened. */
    ControlToken add(String text, int id, boolean normalized, boolean singleWord) {
        String number = new StringBuilder()
                .appendCodePoint(FIRST_PRIVATE_CHARACTER + tokens.size() / NUM_PRIVATE_CHARACTERS)
                .appendCodePoint(FIRST_PRIVATE_CHARACTER + tokens.size() % NUM_PRIVATE_CHARACTERS)
                .toString();
        ControlToken token = new ControlToken(text, id, normalized, singleWord, nonce + number);
        tokens.add(token);
        List<ControlToken> sameFirst = (normalized ? normalizedByFirst : verbatimByFirst)
                .computeIfAbsent(text.charAt(0), first -> new ArrayList<>());
        sameFirst.add(token);
        sameFirst.sort(
                Comparator.comparingInt((ControlToken t) -> t.text().length()).reversed());
        return token;
    }

    List<ControlToken> tokens() {
        return tokens;
    }

    /** Whether the text of a control token occurs anywhere in the text. */
    boolean occurIn(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (longestAt(verbatimByFirst, text, i, text.length()) != null
                    || longestAt(normalizedByFirst, text, i, text.length()) != null) {
                return true;
            }
        }
        return false;
    }

    /**
     * The text for the guarded tokenizer: control tokens that lie wholly in one piece written by the template are
     * replaced by their stand-ins, everything else stays.
     */
    String guard(MarkedText text) {
        StringBuilder guarded = new StringBuilder(text.length() + 64);
        int at = 0;
        while (at < text.length()) {
            int end = text.endOfRun(at);
            if (text.isTemplate(at)) {
                guardVerbatim(text.toString(), at, end, guarded);
            } else {
                guarded.append(text.toString(), at, end);
            }
            at = end;
        }
        return guarded.toString();
    }

    /** Leftmost, longest first, as the library matches; tokens matched after normalisation come second, in the rest. */
    private void guardVerbatim(String text, int from, int to, StringBuilder guarded) {
        int rest = from;
        for (int i = from; i < to; i++) {
            ControlToken token = longestAt(verbatimByFirst, text, i, to);
            if (token != null) {
                guardNormalized(text, rest, i, guarded);
                guarded.append(token.standIn());
                rest = i + token.text().length();
                i = rest - 1;
            }
        }
        guardNormalized(text, rest, to, guarded);
    }

    private void guardNormalized(String text, int from, int to, StringBuilder guarded) {
        int rest = from;
        for (int i = from; i < to; i++) {
            ControlToken token = longestAt(normalizedByFirst, text, i, to);
            if (token != null) {
                guarded.append(text, rest, i).append(token.standIn());
                rest = i + token.text().length();
                i = rest - 1;
            }
        }
        guarded.append(text, rest, to);
    }

    private static ControlToken longestAt(Map<Character, List<ControlToken>> byFirst, String text, int at, int to) {
        List<ControlToken> candidates = byFirst.get(text.charAt(at));
        if (candidates == null) {
            return null;
        }
        for (ControlToken token : candidates) {
            int end = at + token.text().length();
            if (end <= to && text.startsWith(token.text(), at)) {
                // The library takes the longest match and only then asks whether it stands alone.
                return token.singleWord() && touchesWord(text, at, end) ? null : token;
            }
        }
        return null;
    }

    private static boolean touchesWord(String text, int start, int end) {
        return start > 0 && isWord(text.codePointBefore(start)) || end < text.length() && isWord(text.codePointAt(end));
    }

    private static boolean isWord(int codePoint) {
        int type = Character.getType(codePoint);
        return Character.isLetterOrDigit(codePoint)
                || type == Character.CONNECTOR_PUNCTUATION
                || type == Character.NON_SPACING_MARK
                || type == Character.COMBINING_SPACING_MARK
                || type == Character.ENCLOSING_MARK;
    }
}
