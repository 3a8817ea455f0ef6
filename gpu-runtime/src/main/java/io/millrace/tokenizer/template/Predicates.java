package io.millrace.tokenizer.template;

import java.util.List;
import java.util.Map;

/** Jinja's tests: what may follow "is". */
final class Predicates {
    private Predicates() {}

    /** Throws TemplateException for a test that does not exist here. */
    static boolean test(String name, Object value, Arguments arguments) {
        return switch (name) {
            case "defined" -> !(value instanceof Undefined);
            case "undefined" -> value instanceof Undefined;
            case "none" -> value == null;
            case "string" -> value instanceof MarkedText;
            case "number" -> Values.isNumber(value);
            case "integer" -> value instanceof Long;
            case "float" -> value instanceof Double;
            case "boolean" -> value instanceof Boolean;
            case "true" -> Boolean.TRUE.equals(value);
            case "false" -> Boolean.FALSE.equals(value);
            case "mapping" -> value instanceof Map;
            case "sequence" -> value instanceof List || value instanceof Map || value instanceof MarkedText;
            case "iterable" ->
                value instanceof List
                        || value instanceof Map
                        || value instanceof MarkedText
                        || value instanceof Undefined;
            case "callable" -> value instanceof Callable;
            case "odd" -> Math.floorMod(Values.requireInteger(value, "value"), 2L) == 1;
            case "even" -> Math.floorMod(Values.requireInteger(value, "value"), 2L) == 0;
            case "divisibleby" ->
                Values.requireInteger(value, "value") % Values.requireInteger(arguments.required(0, "num"), "num") == 0;
            case "upper" -> isCase(value, "isupper");
            case "lower" -> isCase(value, "islower");
            default -> compare(name, value, arguments);
        };
    }

    private static boolean isCase(Object value, String method) {
        return Values.isTrue(StringMethods.bind(Values.text(value), method).call(Arguments.NONE));
    }

    private static boolean compare(String name, Object value, Arguments arguments) {
        Object other = arguments.get(0, "other", null);
        return switch (name) {
            case "eq", "equalto", "==" -> Values.areEqual(value, other);
            case "ne", "!=" -> !Values.areEqual(value, other);
            case "lt", "lessthan", "<" -> Values.compare(value, other) < 0;
            case "le", "<=" -> Values.compare(value, other) <= 0;
            case "gt", "greaterthan", ">" -> Values.compare(value, other) > 0;
            case "ge", ">=" -> Values.compare(value, other) >= 0;
            case "in" -> Values.contains(other, value);
            case "sameas" -> value == other || value instanceof Boolean && value.equals(other);
            default -> throw new TemplateException("no test named '" + name + "'");
        };
    }
}
