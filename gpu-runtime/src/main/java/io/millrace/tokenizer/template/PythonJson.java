package io.millrace.tokenizer.template;

import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** json.dumps as transformers' tojson filter calls it: non-ASCII text stays, ", " and ": " separate. */
final class PythonJson {
    private final String itemSeparator;
    private final String keySeparator;
    private final String indent;
    private final boolean asciiOnly;
    private final boolean sortKeys;
    private final MarkedText.Builder out = new MarkedText.Builder();

    private PythonJson(Arguments options) {
        Object width = options.get(1, "indent", null);
        indent = width instanceof Long ? " ".repeat((int) Math.max(0, (Long) width)) : textOrNull(width);
        Object separators = options.get(2, "separators", null);
        List<Object> pair = separators == null ? null : Values.requireList(separators, "separators");
        itemSeparator = pair == null
                ? (indent == null ? ", " : ",")
                : Values.text(pair.get(0)).toString();
        keySeparator = pair == null ? ": " : Values.text(pair.get(1)).toString();
        asciiOnly = options.flag(0, "ensure_ascii");
        sortKeys = options.flag(3, "sort_keys");
    }

    private static String textOrNull(Object value) {
        return value == null ? null : Values.requireText(value, "indent").toString();
    }

    /** The JSON of a value; options are ensure_ascii, indent, separators, sort_keys. */
    static MarkedText write(Object value, Arguments options) {
        PythonJson json = new PythonJson(options);
        json.value(value, 0);
        return json.out.build();
    }

    private void value(Object value, int depth) {
        if (value instanceof MarkedText) {
            string((MarkedText) value);
        } else if (value instanceof Map) {
            Map<?, ?> map = (Map<?, ?>) value;
            container('{', '}', keys(map), depth, key -> {
                string(Values.text(key));
                raw(keySeparator);
                value(map.get(key), depth + 1);
            });
        } else if (value instanceof List) {
            container('[', ']', (List<?>) value, depth, item -> value(item, depth + 1));
        } else if (value == null) {
            raw("null");
        } else if (value instanceof Boolean || Values.isNumber(value)) {
            raw(value instanceof Boolean ? value.toString() : Values.text(value).toString());
        } else {
            throw new TemplateException("object of type " + Values.typeName(value) + " is not JSON serializable");
        }
    }

    private List<?> keys(Map<?, ?> map) {
        return sortKeys
                ? map.keySet().stream()
                        .sorted(Comparator.comparing(key -> key.toString()))
                        .collect(Collectors.toList())
                : List.copyOf(map.keySet());
    }

    private void container(char open, char close, List<?> items, int depth, java.util.function.Consumer<Object> write) {
        raw(String.valueOf(open));
        for (int i = 0; i < items.size(); i++) {
            if (i > 0) {
                raw(itemSeparator);
            }
            newLine(depth + 1);
            write.accept(items.get(i));
        }
        if (!items.isEmpty()) {
            newLine(depth);
        }
        raw(String.valueOf(close));
    }

    private void newLine(int depth) {
        if (indent != null) {
            raw("\n" + indent.repeat(depth));
        }
    }

    private void raw(String text) {
        out.append(MarkedText.template(text));
    }

    private void string(MarkedText text) {
        raw("\"");
        int from = 0;
        for (int i = 0; i < text.length(); i++) {
            String escaped = escape(text.toString().charAt(i));
            if (escaped != null) {
                out.append(text.substring(from, i));
                out.append(text.substring(i, i + 1).withCharacters(escaped));
                from = i + 1;
            }
        }
        out.append(text.substring(from, text.length()));
        raw("\"");
    }

    private String escape(char c) {
        return switch (c) {
            case '"' -> "\\\"";
            case '\\' -> "\\\\";
            case '\n' -> "\\n";
            case '\r' -> "\\r";
            case '\t' -> "\\t";
            case '\b' -> "\\b";
            case '\f' -> "\\f";
            default -> c < ' ' || asciiOnly && c > '~' ? String.format("\\u%04x", (int) c) : null;
        };
    }
}
