package io.millrace.tokenizer.template;

import java.time.Clock;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A parsed chat template. Immutable; any thread. */
public final class JinjaTemplate {
    private static final int MAX_RANGE = 100_000;

    private final Statement body;
    private final Clock clock;

    private JinjaTemplate(Statement body, Clock clock) {
        this.body = body;
        this.clock = clock;
    }

    /**
     * Parses a template's source; the clock is what strftime_now reads. Throws TemplateException with the line of a
     * syntax error or an unsupported tag.
     */
    public static JinjaTemplate parse(String source, Clock clock) {
        return new JinjaTemplate(new StatementParser(new Lexer(source).tokens()).template(), clock);
    }

    /**
     * Renders. Variables are Strings (taken as the template's own), MarkedText, Integer, Long, Double, Boolean, null, and
     * Lists and Maps of these. Throws TemplateException when the template refuses them (raise_exception) or fails.
     */
    public MarkedText render(Map<String, ?> variables) {
        Scope globals = globals();
        variables.forEach((name, value) -> globals.set(name, value(value)));
        MarkedText.Builder out = new MarkedText.Builder();
        try {
            body.execute(new Scope(globals), out);
        } catch (StackOverflowError e) {
            throw new TemplateException("macros call each other too deeply", 0, e);
        }
        return out.build();
    }

    /** A Java value as a template value. */
    private static Object value(Object value) {
        if (value instanceof String) {
            return MarkedText.template((String) value);
        } else if (value instanceof Integer) {
            return (long) (Integer) value;
        } else if (value instanceof List) {
            List<Object> items = new ArrayList<>();
            ((List<?>) value).forEach(item -> items.add(value(item)));
            return items;
        } else if (value instanceof Map) {
            Map<Object, Object> map = new LinkedHashMap<>();
            ((Map<?, ?>) value).forEach((key, item) -> map.put(value(key), value(item)));
            return map;
        }
        boolean known = value == null
                || value instanceof MarkedText
                || value instanceof Long
                || value instanceof Double
                || value instanceof Boolean;
        if (!known) {
            throw new IllegalArgumentException("a template variable cannot be a " + value.getClass());
        }
        return value;
    }

    private Scope globals() {
        Scope globals = new Scope(null);
        globals.set("raise_exception", (Callable) a -> {
            throw new TemplateException(a.text(0, "message").toString());
        });
        globals.set("namespace", (Callable) Namespace::new);
        globals.set("range", (Callable) JinjaTemplate::range);
        globals.set("dict", (Callable) a -> {
            Map<Object, Object> map = new LinkedHashMap<>();
            a.positional().forEach(initial -> map.putAll(Values.requireMap(initial, "dict")));
            a.named().forEach((key, item) -> map.put(MarkedText.template(key), item));
            return map;
        });
        globals.set("strftime_now", (Callable)
                a -> MarkedText.template(PythonTime.format(a.text(0, "format").toString(), ZonedDateTime.now(clock))));
        return globals;
    }

    private static Object range(Arguments a) {
        boolean onlyStop = a.positional().size() == 1;
        long start = onlyStop ? 0 : Values.requireInteger(a.required(0, "start"), "start");
        long stop = Values.requireInteger(a.required(onlyStop ? 0 : 1, "stop"), "stop");
        long step = Values.requireInteger(a.get(2, "step", 1L), "step");
        if (step == 0) {
            throw new TemplateException("range step must not be zero");
        }
        List<Object> numbers = new ArrayList<>();
        for (long i = start; step > 0 ? i < stop : i > stop; i += step) {
            if (numbers.size() == MAX_RANGE) {
                throw new TemplateException("range of more than " + MAX_RANGE + " numbers");
            }
            numbers.add(i);
        }
        return numbers;
    }
}
