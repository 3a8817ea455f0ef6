package io.millrace.tokenizer.template;

import java.util.ArrayList;
import java.util.List;

/** Python's arithmetic operators on template values. */
final class Operators {
    /** Longer results than this come from a runaway template. */
    private static final int MAX_REPEATED_LENGTH = 1 << 24;

    private Operators() {}

    static Object binary(String operator, Object left, Object right) {
        if (left instanceof Undefined || right instanceof Undefined) {
            throw (left instanceof Undefined ? (Undefined) left : (Undefined) right).fault();
        }
        if (operator.equals("+") && left instanceof MarkedText && right instanceof MarkedText) {
            return ((MarkedText) left).plus((MarkedText) right);
        }
        if (operator.equals("+") && left instanceof List && right instanceof List) {
            List<Object> joined = new ArrayList<>((List<?>) left);
            joined.addAll((List<?>) right);
            return joined;
        }
        if (operator.equals("*") && left instanceof MarkedText && right instanceof Long) {
            return repeat((MarkedText) left, (Long) right);
        }
        if (operator.equals("*") && left instanceof Long && right instanceof MarkedText) {
            return repeat((MarkedText) right, (Long) left);
        }
        if (!Values.isNumber(left) || !Values.isNumber(right)) {
            throw new TemplateException("unsupported operand types for " + operator + ": '" + Values.typeName(left)
                    + "' and '" + Values.typeName(right) + "'");
        }
        if (left instanceof Double || right instanceof Double || operator.equals("/")) {
            return floating(operator, Values.number(left), Values.number(right));
        }
        return integral(operator, Values.requireInteger(left, "left"), Values.requireInteger(right, "right"));
    }

    static Object negate(Object value) {
        return value instanceof Double ? (Object) (-(Double) value) : binary("-", 0L, value);
    }

    private static MarkedText repeat(MarkedText text, long times) {
        if (times * (double) text.length() > MAX_REPEATED_LENGTH) {
            throw new TemplateException("a string repeated " + times + " times exceeds " + MAX_REPEATED_LENGTH);
        }
        MarkedText.Builder out = new MarkedText.Builder();
        for (long i = 0; i < times; i++) {
            out.append(text);
        }
        return out.build();
    }

    private static Object integral(String operator, long a, long b) {
        if (b == 0 && (operator.equals("//") || operator.equals("%"))) {
            throw new TemplateException("division by zero");
        }
        return switch (operator) {
            case "+" -> Math.addExact(a, b);
            case "-" -> Math.subtractExact(a, b);
            case "*" -> Math.multiplyExact(a, b);
            case "//" -> Math.floorDiv(a, b);
            case "%" -> Math.floorMod(a, b);
            case "**" -> b < 0 ? (Object) Math.pow(a, b) : power(a, b);
            default -> throw new TemplateException("unknown operator " + operator);
        };
    }

    private static Object power(long base, long exponent) {
        long result = 1;
        for (long i = 0; i < exponent; i++) {
            if (base == 0 || base == 1) {
                return base;
            }
            result = Math.multiplyExact(result, base);
        }
        return result;
    }

    private static Object floating(String operator, double a, double b) {
        if (b == 0 && (operator.startsWith("/") || operator.equals("%"))) {
            throw new TemplateException("division by zero");
        }
        return switch (operator) {
            case "+" -> a + b;
            case "-" -> a - b;
            case "*" -> a * b;
            case "/" -> a / b;
            case "//" -> Math.floor(a / b);
            case "%" -> a - Math.floor(a / b) * b;
            case "**" -> Math.pow(a, b);
            default -> throw new TemplateException("unknown operator " + operator);
        };
    }
}
