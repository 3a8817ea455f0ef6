package io.millrace.tokenizer.template;

import java.util.HashMap;
import java.util.Map;

/** The names visible at one place of a template. Loops, macros and with-blocks open inner scopes. */
final class Scope {
    private final Scope outer;
    private final Map<String, Object> values = new HashMap<>();

    Scope(Scope outer) {
        this.outer = outer;
    }

    Object get(String name) {
        for (Scope scope = this; scope != null; scope = scope.outer) {
            Object value = scope.values.get(name);
            if (value != null || scope.values.containsKey(name)) {
                return value;
            }
        }
        return new Undefined("'" + name + "' is undefined");
    }

    void set(String name, Object value) {
        values.put(name, value);
    }
}
