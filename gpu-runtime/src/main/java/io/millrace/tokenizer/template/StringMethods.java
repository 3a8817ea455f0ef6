package io.millrace.tokenizer.template;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.function.IntPredicate;

/** The methods of Python's str, on marked text. */
final class StringMethods {
    private StringMethods() {}

    /** The bound method, or null when strings have none of this name here. */
    static Callable bind(MarkedText self, String name) {
        String chars = self.toString();
        return switch (name) {
            case "strip" -> a -> strip(self, a, true, true);
            case "lstrip" -> a -> strip(self, a, true, false);
            case "rstrip" -> a -> strip(self, a, false, true);
            case "split" -> a -> split(self, a);
            case "rsplit" -> a -> splitFromEnd(self, a);
            case "splitlines" -> a -> lines(self, a.flag(0, "keepends"));
            case "partition" ->
                a -> partition(
                        self, a.text(0, "sep"), chars.indexOf(a.text(0, "sep").toString()), true);
            case "rpartition" ->
                a -> partition(
                        self,
                        a.text(0, "sep"),
                        chars.lastIndexOf(a.text(0, "sep").toString()),
                        false);
            case "startswith" -> a -> anyOf(a, chars::startsWith);
            case "endswith" -> a -> anyOf(a, chars::endsWith);
            case "removeprefix" ->
                a -> chars.startsWith(a.text(0, "prefix").toString())
                        ? self.substring(a.text(0, "prefix").length(), self.length())
                        : self;
            case "removesuffix" ->
                a -> chars.endsWith(a.text(0, "suffix").toString())
                        ? self.substring(0, self.length() - a.text(0, "suffix").length())
                        : self;
            case "replace" -> a -> replace(self, a.text(0, "old"), a.text(1, "new"), a.count(2, "count", -1));
            case "join" -> a -> join(self, Values.iterate(a.required(0, "iterable")));
            case "find" -> a -> index(chars, chars.indexOf(a.text(0, "sub").toString()));
            case "rfind" -> a -> index(chars, chars.lastIndexOf(a.text(0, "sub").toString()));
            case "index" ->
                a -> {
                    int at = chars.indexOf(a.text(0, "sub").toString());
                    if (at < 0) {
                        throw new TemplateException("substring not found");
                    }
                    return index(chars, at);
                };
            case "count" -> a -> (long) split(self, a.text(0, "sub"), -1).size() - 1;
            default -> caseMethod(self, name);
        };
    }

    private static Callable caseMethod(MarkedText self, String name) {
        String chars = self.toString();
        return switch (name) {
            case "upper" -> a -> self.withCharacters(chars.toUpperCase(Locale.ROOT));
            case "lower", "casefold" -> a -> self.withCharacters(chars.toLowerCase(Locale.ROOT));
            case "title" -> a -> self.withCharacters(titled(chars));
            case "capitalize" -> a -> capitalize(self);
            case "isdigit", "isnumeric", "isdecimal" -> a -> all(chars, Character::isDigit);
            case "isalpha" -> a -> all(chars, Character::isLetter);
            case "isalnum" -> a -> all(chars, Character::isLetterOrDigit);
            case "isspace" -> a -> all(chars, c -> c < 0x10000 && PythonText.isSpace((char) c));
            case "isupper" ->
                a -> chars.equals(chars.toUpperCase(Locale.ROOT)) && !chars.equals(chars.toLowerCase(Locale.ROOT));
            case "islower" ->
                a -> chars.equals(chars.toLowerCase(Locale.ROOT)) && !chars.equals(chars.toUpperCase(Locale.ROOT));
            default -> null;
        };
    }

    static MarkedText strip(MarkedText self, Arguments arguments, boolean left, boolean right) {
        Object wanted = arguments.get(0, "chars", null);
        String set = wanted == null ? null : Values.requireText(wanted, "chars").toString();
        String chars = self.toString();
        int from = 0;
        int to = chars.length();
        while (left && from < to && isStripped(chars.codePointAt(from), set)) {
            from += Character.charCount(chars.codePointAt(from));
        }
        while (right && to > from && isStripped(chars.codePointBefore(to), set)) {
            to -= Character.charCount(chars.codePointBefore(to));
        }
        return self.substring(from, to);
    }

    private static boolean isStripped(int codePoint, String set) {
        return set == null ? codePoint < 0x10000 && PythonText.isSpace((char) codePoint) : set.indexOf(codePoint) >= 0;
    }

    private static List<Object> split(MarkedText self, Arguments arguments) {
        Object separator = arguments.get(0, "sep", null);
        int maxSplits = arguments.count(1, "maxsplit", -1);
        return separator == null
                ? words(self, maxSplits)
                : split(self, Values.requireText(separator, "sep"), maxSplits);
    }

    private static List<Object> split(MarkedText self, MarkedText separator, int maxSplits) {
        if (separator.isEmpty()) {
            throw new TemplateException("empty separator");
        }
        List<Object> parts = new ArrayList<>();
        int from = 0;
        int at = self.toString().indexOf(separator.toString());
        while (at >= 0 && (maxSplits < 0 || parts.size() < maxSplits)) {
            parts.add(self.substring(from, at));
            from = at + separator.length();
            at = self.toString().indexOf(separator.toString(), from);
        }
        parts.add(self.substring(from, self.length()));
        return parts;
    }

    private static List<Object> splitFromEnd(MarkedText self, Arguments arguments) {
        Object given = arguments.get(0, "sep", null);
        int maxSplits = arguments.count(1, "maxsplit", -1);
        if (given == null) {
            if (maxSplits >= 0) {
                throw new TemplateException("rsplit with maxsplit needs a separator here");
            }
            return words(self, -1);
        }
        MarkedText separator = Values.requireText(given, "sep");
        if (separator.isEmpty()) {
            throw new TemplateException("empty separator");
        }
        List<Object> parts = new ArrayList<>();
        int to = self.length();
        int at = self.toString().lastIndexOf(separator.toString());
        while (at >= 0 && (maxSplits < 0 || parts.size() < maxSplits)) {
            parts.add(self.substring(at + separator.length(), to));
            to = at;
            at = at == 0 ? -1 : self.toString().lastIndexOf(separator.toString(), at - separator.length());
        }
        parts.add(self.substring(0, to));
        Collections.reverse(parts);
        return parts;
    }

    private static List<Object> words(MarkedText self, int maxSplits) {
        List<Object> words = new ArrayList<>();
        MarkedText rest = strip(self, Arguments.NONE, true, false);
        while (!rest.isEmpty()) {
            int end = 0;
            boolean last = maxSplits >= 0 && words.size() == maxSplits;
            while (end < rest.length()
                    && (last || !PythonText.isSpace(rest.toString().charAt(end)))) {
                end++;
            }
            words.add(last ? strip(rest, Arguments.NONE, false, true) : rest.substring(0, end));
            rest = strip(rest.substring(end, rest.length()), Arguments.NONE, true, false);
        }
        return words;
    }

    private static List<Object> lines(MarkedText self, boolean keepEnds) {
        List<Object> lines = new ArrayList<>();
        String chars = self.toString();
        int from = 0;
        for (int i = 0; i < chars.length(); i++) {
            if ("\n\r\u000B\f\u001C\u001D\u001E\u0085\u2028\u2029".indexOf(chars.charAt(i)) < 0) {
                continue;
            }
            int next = chars.startsWith("\r\n", i) ? i + 2 : i + 1;
            lines.add(self.substring(from, keepEnds ? next : i));
            from = next;
            i = next - 1;
        }
        if (from < chars.length()) {
            lines.add(self.substring(from, chars.length()));
        }
        return lines;
    }

    private static List<Object> partition(MarkedText self, MarkedText separator, int at, boolean wholeFirst) {
        if (at < 0) {
            return wholeFirst
                    ? List.of(self, MarkedText.EMPTY, MarkedText.EMPTY)
                    : List.of(MarkedText.EMPTY, MarkedText.EMPTY, self);
        }
        int end = at + separator.length();
        return List.of(self.substring(0, at), self.substring(at, end), self.substring(end, self.length()));
    }

    private static boolean anyOf(Arguments arguments, java.util.function.Predicate<String> matches) {
        Object wanted = arguments.required(0, "prefix or suffix");
        List<Object> candidates = wanted instanceof List ? Values.iterate(wanted) : List.of(wanted);
        return candidates.stream()
                .anyMatch(c ->
                        matches.test(Values.requireText(c, "prefix or suffix").toString()));
    }

    static MarkedText replace(MarkedText self, MarkedText old, MarkedText replacement, int maxTimes) {
        if (maxTimes == 0) {
            return self;
        }
        MarkedText.Builder out = new MarkedText.Builder();
        if (old.isEmpty()) {
            List<Object> characters = Values.characters(self);
            for (int i = 0; i < characters.size(); i++) {
                out.append(maxTimes < 0 || i < maxTimes ? replacement : MarkedText.EMPTY);
                out.append((MarkedText) characters.get(i));
            }
            return maxTimes < 0 || characters.size() < maxTimes
                    ? out.append(replacement).build()
                    : out.build();
        }
        return join(replacement, split(self, old, maxTimes));
    }

    static MarkedText join(MarkedText separator, List<Object> items) {
        MarkedText.Builder out = new MarkedText.Builder();
        for (int i = 0; i < items.size(); i++) {
            if (i > 0) {
                out.append(separator);
            }
            out.append(Values.requireText(items.get(i), "item to join"));
        }
        return out.build();
    }

    static MarkedText capitalize(MarkedText self) {
        if (self.isEmpty()) {
            return self;
        }
        int first = self.toString().offsetByCodePoints(0, 1);
        MarkedText head = self.substring(0, first);
        MarkedText tail = self.substring(first, self.length());
        return head.withCharacters(head.toString().toUpperCase(Locale.ROOT))
                .plus(tail.withCharacters(tail.toString().toLowerCase(Locale.ROOT)));
    }

    private static String titled(String chars) {
        StringBuilder out = new StringBuilder();
        boolean inWord = false;
        for (int c : chars.codePoints().toArray()) {
            out.appendCodePoint(inWord ? Character.toLowerCase(c) : Character.toTitleCase(c));
            inWord = Character.isLetter(c);
        }
        return out.toString();
    }

    private static long index(String chars, int at) {
        return at < 0 ? -1 : chars.codePointCount(0, at);
    }

    private static boolean all(String chars, IntPredicate test) {
        return !chars.isEmpty() && chars.codePoints().allMatch(test);
    }
}
