package io.millrace.tokenizer.template;

import java.util.LinkedHashMap;
import java.util.Map;

/** What namespace() returns: the one kind of object whose attributes a template can set. */
record Namespace(Map<String, Object> attributes) {
    Namespace(Arguments arguments) {
        this(new LinkedHashMap<>(arguments.named()));
        for (Object initial : arguments.positional()) {
            Values.requireMap(initial, "namespace").forEach((key, value) -> attributes.put(key.toString(), value));
        }
    }
}
