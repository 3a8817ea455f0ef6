package io.millrace.tokenizer.template;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Jinja's filters on single values; those on sequences are in {@link SequenceFilters}. */
final class Filters {
    private static final Pattern TITLE_WORD = Pattern.compile("[-\\s({\\[<]+|[^-\\s({\\[<]+");

    private Filters() {}

    /** Throws TemplateException for a filter that does not exist here. */
    static Object apply(String name, Object value, Arguments a) {
        return switch (name) {
            case "trim" -> StringMethods.strip(Values.text(value), a, true, true);
            case "upper", "lower" ->
                StringMethods.bind(Values.text(value), name).call(Arguments.NONE);
            case "title" -> title(Values.text(value));
            case "capitalize" -> StringMethods.capitalize(Values.text(value));
            case "replace" ->
                StringMethods.replace(
                        Values.text(value),
                        Values.text(a.required(0, "old")),
                        Values.text(a.required(1, "new")),
                        a.count(2, "count", -1));
            case "string" -> Values.text(value);
            case "safe" -> value;
            case "indent" -> indent(Values.text(value), a);
            case "escape", "e", "forceescape" -> escape(Values.text(value));
            case "wordcount" ->
                (long) ((List<?>)
                                StringMethods.bind(Values.text(value), "split").call(Arguments.NONE))
                        .size();
            case "tojson" -> PythonJson.write(value, a);
            case "default", "d" ->
                value instanceof Undefined || a.flag(1, "boolean") && !Values.isTrue(value)
                        ? a.get(0, "default_value", MarkedText.EMPTY)
                        : value;
            case "length", "count" -> Values.length(value);
            case "attr" -> Values.attribute(value, a.text(0, "name").toString());
            default -> numeric(name, value, a);
        };
    }

    private static Object numeric(String name, Object value, Arguments a) {
        return switch (name) {
            case "abs" ->
                value instanceof Double
                        ? (Object) Math.abs((Double) value)
                        : (Object) Math.abs(Values.requireInteger(value, "value"));
            case "int" -> integer(value, a);
            case "float" -> floating(value, a);
            case "round" -> round(Values.number(value), a);
            default -> SequenceFilters.apply(name, value, a);
        };
    }

    private static Object integer(Object value, Arguments a) {
        if (value instanceof Double) {
            return (long) (double) (Double) value;
        } else if (Values.isNumber(value)) {
            return Values.requireInteger(value, "value");
        }
        String digits = Values.text(value).toString().strip();
        try {
            return digits.matches("[+-]?\\d+") ? Long.parseLong(digits) : (long) Double.parseDouble(digits);
        } catch (NumberFormatException e) {
            return a.get(0, "default", 0L);
        }
    }

    private static Object floating(Object value, Arguments a) {
        if (Values.isNumber(value)) {
            return Values.number(value);
        }
        try {
            return Double.parseDouble(Values.text(value).toString().strip());
        } catch (NumberFormatException e) {
            return a.get(0, "default", 0.0);
        }
    }

    private static Object round(double value, Arguments a) {
        RoundingMode mode = switch (Values.text(a.get(1, "method", MarkedText.template("common")))
                .toString()) {
            case "ceil" -> RoundingMode.CEILING;
            case "floor" -> RoundingMode.FLOOR;
            default -> RoundingMode.HALF_EVEN;
        };
        return new BigDecimal(value).setScale(a.count(0, "precision", 0), mode).doubleValue();
    }

    /** Words start after white space, "-" and opening brackets. */
    private static MarkedText title(MarkedText text) {
        MarkedText.Builder out = new MarkedText.Builder();
        Matcher words = TITLE_WORD.matcher(text.toString());
        while (words.find()) {
            out.append(StringMethods.capitalize(text.substring(words.start(), words.end())));
        }
        return out.build();
    }

    private static MarkedText indent(MarkedText text, Arguments a) {
        Object width = a.get(0, "width", 4L);
        MarkedText margin = width instanceof Long
                ? MarkedText.template(" ".repeat((int) Math.max(0, (Long) width)))
                : Values.requireText(width, "width");
        boolean first = a.flag(1, "first");
        boolean blank = a.flag(2, "blank");
        MarkedText.Builder out = new MarkedText.Builder();
        int from = 0;
        for (int line = 0; from <= text.length(); line++) {
            int newLine = text.toString().indexOf('\n', from);
            int end = newLine < 0 ? text.length() : newLine + 1;
            boolean empty = (newLine < 0 ? end : newLine) == from;
            if (line == 0 ? first : blank || !empty) {
                out.append(margin);
            }
            out.append(text.substring(from, end));
            from = newLine < 0 ? text.length() + 1 : end;
        }
        return out.build();
    }

    private static MarkedText escape(MarkedText text) {
        MarkedText.Builder out = new MarkedText.Builder();
        for (int i = 0; i < text.length(); i++) {
            String escaped = switch (text.toString().charAt(i)) {
                case '&' -> "&amp;";
                case '<' -> "&lt;";
                case '>' -> "&gt;";
                case '"' -> "&#34;";
                case '\'' -> "&#39;";
                default -> null;
            };
            MarkedText one = text.substring(i, i + 1);
            out.append(escaped == null ? one : one.withCharacters(escaped));
        }
        return out.build();
    }

    /** Jinja compares strings without case unless told otherwise. */
    static Comparator<Object> order(boolean caseSensitive) {
        return (left, right) -> Values.compare(comparable(left, caseSensitive), comparable(right, caseSensitive));
    }

    static Object comparable(Object value, boolean caseSensitive) {
        return value instanceof MarkedText && !caseSensitive
                ? MarkedText.data(value.toString().toLowerCase(Locale.ROOT))
                : value;
    }

    static List<Object> reversed(Object value) {
        List<Object> items = new ArrayList<>(Values.iterate(value));
        Collections.reverse(items);
        return items;
    }
}
