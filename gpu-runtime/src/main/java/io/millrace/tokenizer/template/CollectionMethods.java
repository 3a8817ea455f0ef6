package io.millrace.tokenizer.template;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The methods of dict and list that change nothing; transformers' sandbox refuses the others too. */
final class CollectionMethods {
    private CollectionMethods() {}

    /** The bound method, or null when a dict has none of this name. */
    static Callable bind(Map<?, ?> map, String name) {
        return switch (name) {
            case "items" -> arguments -> pairs(map);
            case "keys" -> arguments -> new ArrayList<Object>(map.keySet());
            case "values" -> arguments -> new ArrayList<Object>(map.values());
            case "get" ->
                arguments -> {
                    Object key = arguments.required(0, "key");
                    return map.containsKey(key) ? map.get(key) : arguments.get(1, "default", null);
                };
            default -> null;
        };
    }

    /** The bound method, or null when a list has none of this name. */
    static Callable bind(List<?> list, String name) {
        return switch (name) {
            case "index" ->
                arguments -> {
                    for (int i = 0; i < list.size(); i++) {
                        if (Values.areEqual(list.get(i), arguments.required(0, "value"))) {
                            return (long) i;
                        }
                    }
                    throw new TemplateException("value is not in list");
                };
            case "count" ->
                arguments -> list.stream()
                        .filter(item -> Values.areEqual(item, arguments.required(0, "value")))
                        .count();
            case "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse" ->
                arguments -> {
                    throw new TemplateException("list." + name + " changes its list, which the sandbox of transformers"
                            + " forbids; build a new list with +");
                };
            default -> null;
        };
    }

    static List<Object> pairs(Map<?, ?> map) {
        List<Object> pairs = new ArrayList<>(map.size());
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            List<Object> pair = new ArrayList<>(2);
            pair.add(entry.getKey());
            pair.add(entry.getValue());
            pairs.add(pair);
        }
        return pairs;
    }
}
