package io.millrace.tokenizer.template;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The evaluated arguments of one call. */
record Arguments(List<Object> positional, Map<String, Object> named) {
    static final Arguments NONE = new Arguments(List.of(), Map.of());

    boolean has(int index, String name) {
        return index < positional.size() || named.containsKey(name);
    }

    /** The argument at the position or with the name, else the fallback. */
    Object get(int index, String name, Object fallback) {
        if (index < positional.size()) {
            return positional.get(index);
        }
        return named.containsKey(name) ? named.get(name) : fallback;
    }

    Object required(int index, String name) {
        if (!has(index, name)) {
            throw new TemplateException("missing argument " + name);
        }
        return get(index, name, null);
    }

    MarkedText text(int index, String name) {
        return Values.requireText(required(index, name), name);
    }

    boolean flag(int index, String name) {
        return Values.isTrue(get(index, name, Boolean.FALSE));
    }

    int count(int index, String name, int fallback) {
        Object value = get(index, name, null);
        return value == null ? fallback : Math.toIntExact(Values.requireInteger(value, name));
    }

    /** These arguments without the first positional ones. */
    Arguments from(int first) {
        return new Arguments(new ArrayList<>(positional.subList(first, positional.size())), named);
    }
}
